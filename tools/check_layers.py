#!/usr/bin/env python3
"""Layering check: every #include of a module must be allowed by its cortiq_module(... DEPENDS ...) declaration.

Rules (ARCHITECTURE.md):
  * a module includes only itself and the modules that it declares, and a declared module stands on a lower floor;
  * a private header (src/MODULE/x.hpp) is included only by its own module;
  * a third-party header is included only by the modules listed in THIRD_PARTY;
  * a *.simd.cpp file is compiled once per instruction set and includes almost nothing (cmake/CortiqModule.cmake).
Exit status 1 and one line per violation, or 0.
"""
import pathlib
import re
import sys

FLOORS = {
    "support": 0, "cmf": 1, "codec": 2, "linalg": 2, "vulkan": 2, "hf": 2, "model": 3, "gptq": 3,
    "calib": 4, "device": 4, "pipeline": 5, "app": 6,
}

# Prefix of an include path -> modules that may include it. <fmt/...> and JSON reach others through the
# interfaces of support and cmf (cortiq::fail, cmf::Json).
THIRD_PARTY = {
    "spdlog/": {"support", "app"},
    "fmt/": {"support"},
    "tbb/": {"support"},
    "oneapi/": {"support"},
    "nlohmann/": {"cmf", "hf", "model", "calib", "pipeline"},
    "Eigen/": set(),
    "pcre2.h": {"model"},
    "utf8proc.h": {"model"},
    "openssl/": {"calib"},
    "vulkan/": {"vulkan"},
    "CLI/": {"app"},
    "gtest/": set(),
    "benchmark/": set(),
}

# Headers that are neither public nor private to a module: shared with the kernels, or generated.
SHARED_HEADERS = {"layout.h": {"device"}, "kernels.inc": {"vulkan"}}

SIMD_HEADERS = {"limits", "cstdint", "cstddef", "cmath", "cstring", "immintrin.h", "arm_neon.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def read_declarations(source_dir):
    """Module name -> set of declared dependencies."""
    declarations = {}
    for path in sorted(source_dir.glob("*/CMakeLists.txt")):
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
        for body in re.findall(r"cortiq_module\(([^)]*)\)", text):
            words = body.split()
            depends, in_depends = set(), False
            for word in words[1:]:
                if word.isupper():
                    in_depends = word == "DEPENDS"
                elif in_depends:
                    depends.add(word)
            declarations[words[0]] = declarations.get(words[0], set()) | depends  # a module with a twin has two
    return declarations


def check_declarations(declarations):
    for module, depends in declarations.items():
        if module not in FLOORS:
            yield f"src/{module}/CMakeLists.txt: module {module} has no floor; add it to FLOORS in tools/check_layers.py"
            continue
        for dependency in sorted(depends):
            if FLOORS.get(dependency, 99) >= FLOORS[module]:
                yield f"src/{module}/CMakeLists.txt: {module} may not depend on {dependency}, which is not on a lower floor"


def module_files(root, module):
    for folder in (root / "src" / module, root / "include" / "cortiq" / module):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".h"):
                yield path


def check_include(root, module, depends, path, bracket, header):
    if header.startswith("cortiq/"):
        target = header.split("/")[1]
        if target != module and target not in depends:
            yield f"{module} may not include {header}: {target} is not among its DEPENDS"
        if not (root / "include" / header).is_file():
            yield f"{header} does not exist below include/"
        if module == "codec" and target == "cmf" and header != "cortiq/cmf/dtype.hpp":
            yield f"codec knows only cortiq/cmf/dtype.hpp of cmf, not {header}"
        return
    for prefix, modules in THIRD_PARTY.items():
        if header.startswith(prefix) and module not in modules:
            allowed = ", ".join(sorted(modules)) or "tests and benchmarks only"
            yield f"{header} may not be included in {module} ({allowed})"
    if module in SHARED_HEADERS.get(header, ()):
        return
    private = (root / "src" / module / header, path.parent / header)
    if bracket == '"' and not any(candidate.is_file() for candidate in private):
        yield f'"{header}" is not a private header of {module}'
    if path.name.endswith(".simd.cpp") and bracket == "<" and header not in SIMD_HEADERS:
        yield f"<{header}> may not be included in a *.simd.cpp file"


def check_module(root, module, depends):
    for path in module_files(root, module):
        relative = path.relative_to(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                for problem in check_include(root, module, depends, path, match.group(1), match.group(2)):
                    yield f"{relative}:{number}: {problem}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    declarations = read_declarations(root / "src")
    problems = list(check_declarations(declarations))
    for module, depends in declarations.items():
        problems.extend(check_module(root, module, depends))
    for problem in problems:
        print(problem)
    print(f"check_layers: {len(declarations)} modules, {len(problems)} problem(s)")
    return 1 if problems or not declarations else 0


if __name__ == "__main__":
    sys.exit(main())
