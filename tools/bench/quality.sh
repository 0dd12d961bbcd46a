#!/usr/bin/env bash
# Quality of the algorithms on trained models: mean KL divergence to the float model and perplexity, as one Markdown table.
# usage: tools/bench/quality.sh PROGRAM CALIB.txt EVAL.txt MODEL_FOLDER...
# Calibration: all of CALIB (high: at most 131072 tokens), windows of 256; embedding and head kept f16. Default at q2tp is
# sequential. Models without a forward pass are named and left out.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
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
  for codec in q4tp q2tp; do
    out=$work/out.cmf
    common=(--codec "$codec" --embeddings f16 --output "$out" --quiet)
    calibrated=("${common[@]}" --calib "$calib" --window 256 --report "$work/report.json")
    line="$name $codec"
    "$program" quantize "$model" "${common[@]}" >/dev/null 2>&1
    line+=" $(kl_and_ppl "$model" "$out") 0"
    for recipe in existing fast default high; do
      case $recipe in
        existing) extra=("${existing[@]}" --no-sequential --tokens 1000000) ;;
        high) extra=(--effort high) ;;
        *) extra=(--effort "$recipe" --tokens 1000000) ;;
      esac
      if ! "$program" gptq "$model" "${calibrated[@]}" "${extra[@]}" >/dev/null 2>"$work/why"; then
        echo "left out: $name: $(tail -1 "$work/why")" >&2
        continue 3
      fi
      seconds=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["seconds"])' "$work/report.json")
      line+=" $(kl_and_ppl "$model" "$out") $seconds"
    done
    echo "$line" >>"$rows"
  done
done
python3 - "$rows" <<'PY'
import sys
rows = [line.split() for line in open(sys.argv[1])]
names = ["rounding", "existing", "fast", "default", "high"]
print("| model | codec | ppl f16 | " + " | ".join("ppl " + n for n in names) + " | " + " | ".join("KL " + n for n in names)
      + " | fast/existing | default/existing | high/existing | seconds existing, fast, default, high |")
print("|---" * (len(names) * 2 + 7) + "|")
ratios = {}
for name, codec, *values in rows:
    v = [[float(x) for x in values[i:i + 4]] for i in range(0, len(values), 4)]
    kl, ppl, base, seconds = [[x[k] for x in v] for k in range(4)]
    share = [k / kl[1] for k in kl[2:]]
    ratios.setdefault(codec, []).append(share)
    print(f"| {name} | {codec} | {base[0]:.3f} | " + " | ".join(f"{p:.3f}" for p in ppl) + " | " + " | ".join(f"{k:.5f}" for k in kl)
          + " | " + " | ".join(f"{s:.3f}" for s in share) + " | " + ", ".join(f"{s:.1f}" for s in seconds[1:]) + " |")
for codec, values in ratios.items():
    means = [sum(v[i] for v in values) / len(values) for i in range(3)]
    print(f"\nmean KL ratio to existing, {codec}: fast {means[0]:.3f}, default {means[1]:.3f}, high {means[2]:.3f} over {len(values)} models")
PY
