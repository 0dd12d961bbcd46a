#!/usr/bin/env bash
# Builds the program and quantizes the small trained model of the repository (tests/data/tiny-llama, 1 M parameters)
# to q4tp with GPTQ; prints the error table and the perplexity before and after.
# usage: tools/quickstart.sh [--no-setup]
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") tools/setup.sh ;;
  --no-setup) ;;
  *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
echo "== Building (a few minutes the first time)"
cmake --preset release -DCORTIQ_TESTS=OFF "${launcher[@]}" >/dev/null
cmake --build --preset release --target cortiq-quant

program=build/release/cortiq-quant
model=tests/data/tiny-llama
text=tests/data/text/eval.txt
out=build/quickstart/tiny-llama-q4tp.cmf
mkdir -p "$(dirname "$out")"
rm -f "$out"

echo
echo "== Perplexity before: $model"
"$program" ppl "$model" "$text"
echo
echo "== GPTQ to q4tp with the built-in calibration text"
"$program" gptq "$model" --output "$out" --codec q4tp
echo
echo "== Perplexity after: $out"
"$program" ppl "$out" "$text"
echo
ls -l "$model/model.safetensors" "$out"
echo
echo "Your own model: $program gptq MODEL_FOLDER --output OUT.cmf --calib TEXT.txt"
