#!/usr/bin/env bash
# Quality of the algorithms on trained models: mean KL divergence to the float model and perplexity, as one Markdown table.
# usage: tools/bench/quality.sh PROGRAM CALIB.txt EVAL.txt MODEL_FOLDER...
# Calibration: all of CALIB, windows of 256; embedding and head kept f16. Models without a forward pass are named and left out.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
program=$1 calib=$2 eval=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
existing=(--order natural --rung diag --ladder converter)

# kl_and_ppl BASE TEST -> "KL PPL"
kl_and_ppl() {
  "$program" kld "$1" "$2" "$eval" --json --quiet | python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["mean_kl"], r["test_perplexity"], r["base_perplexity"])'
}

rows=$work/rows
: >"$rows"
for model in "$@"; do
  name=$(basename "$model")
  hessians=$work/$name.hess
  if ! "$program" hessians capture "$model" "$hessians" --calib "$calib" --tokens 1000000 --window 256 --quiet >/dev/null 2>"$work/why"; then
    echo "left out: $name: $(tail -1 "$work/why")" >&2
    continue
  fi
  for codec in q4tp q2tp; do
    out=$work/out.cmf
    common=(--codec "$codec" --embeddings f16 --output "$out" --quiet)
    "$program" quantize "$model" "${common[@]}" >/dev/null 2>&1
    rounding=$(kl_and_ppl "$model" "$out")
    "$program" gptq "$model" "${common[@]}" --hessians "$hessians" "${existing[@]}" >/dev/null 2>&1
    plain=$(kl_and_ppl "$model" "$out")
    "$program" gptq "$model" "${common[@]}" --hessians "$hessians" >/dev/null 2>&1
    default=$(kl_and_ppl "$model" "$out")
    echo "$name $codec $rounding $plain $default" >>"$rows"
  done
done
python3 - "$rows" <<'PY'
import sys
rows = [line.split() for line in open(sys.argv[1])]
print("| model | codec | ppl f16 | ppl rounding | ppl existing | ppl default | KL rounding | KL existing | KL default | default/existing |")
print("|---|---|---|---|---|---|---|---|---|---|")
ratios = {}
for name, codec, *values in rows:
    v = [float(x) for x in values]
    (kr, pr, base), (kp, pp, _), (kd, pd, _) = v[0:3], v[3:6], v[6:9]
    ratios.setdefault(codec, []).append(kd / kp)
    print(f"| {name} | {codec} | {base:.3f} | {pr:.3f} | {pp:.3f} | {pd:.3f} | {kr:.5f} | {kp:.5f} | {kd:.5f} | {kd / kp:.3f} |")
for codec, values in ratios.items():
    print(f"\nmean KL ratio, {codec}: {sum(values) / len(values):.3f} over {len(values)} models")
PY
