#!/usr/bin/env python3
"""Size check of C++ files: warns above the house limits, fails far above them.

                 warning   failure
  .cpp lines         400       600
  .hpp lines         200       600
  function lines      60       100

A file whose first 10 lines contain "check_shape: generated table" is exempt. Functions are found by matching
braces: a block at namespace or class level whose head has a parameter list.
"""
import pathlib
import re
import sys

FOLDERS = ("src", "include", "tests", "tools/bench")
FILE_WARNING = {".cpp": 400, ".hpp": 200}
FILE_FAILURE = 600
FUNCTION_WARNING = 60
FUNCTION_FAILURE = 100
EXEMPT = "check_shape: generated table"

# Comments, raw strings, strings, characters (digit separators are no characters), preprocessor lines.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE)


def blank(match):
    """Same number of lines, no content; a string stays visible as a token."""
    text = match.group(0)
    keep = '""' if text[0] in "\"'R" else ""
    return keep + "\n" * text.count("\n")


def block_kind(head, outer):
    head = head.strip()
    if outer in ("inner", "function"):
        return "inner"
    if re.match(r"(inline\s+)?namespace\b", head) or head.startswith("extern"):
        return "namespace" if "(" not in head else "function"
    without_templates = re.sub(r"^template\s*<.*?>\s*(requires\s*\(.*?\))?", "", head, flags=re.DOTALL)
    if re.match(r"(class|struct|union|enum)\b", without_templates) and "(" not in without_templates.split("{")[0]:
        return "type"
    if "(" in head and not re.search(r"=\s*$", head):
        return "function"
    return "inner"


def functions(text):
    """Yields (name, first line, lines) of every function body."""
    text = NOISE.sub(blank, text)
    stack, head, head_line, line = [], "", None, 1
    for char in text:
        if char == "\n":
            line += 1
        outer = stack[-1][0] if stack else "namespace"
        if char == "{":
            stack.append((block_kind(head, outer), head, head_line or line))
            head, head_line = "", None
        elif char == "}":
            if stack:
                kind, block_head, first = stack.pop()
                if kind == "function":
                    name = re.search(r"([~\w:]+|operator[^\s(]+)\s*\(", block_head)
                    yield (name.group(1) if name else "?"), first, line - first + 1
                if kind == "inner" and (not stack or stack[-1][0] in ("namespace", "type")):
                    head = block_head  # a brace initializer inside a head: `a_{0} {`
                    continue
            head, head_line = "", None
        elif char == ";":
            head, head_line = "", None
        else:
            head += char
            if head_line is None and not char.isspace():
                head_line = line


def check_file(path):
    """Yields (failure, line, message)."""
    text = path.read_text(encoding="utf-8")
    if EXEMPT in "\n".join(text.splitlines()[:10]):
        return
    count = text.count("\n")
    limit = FILE_WARNING[path.suffix]
    if count > limit:
        yield count > FILE_FAILURE, 1, f"file has {count} lines (limit {limit}); split it by noun"
    for name, first, lines in functions(text):
        if lines > FUNCTION_WARNING:
            yield lines > FUNCTION_FAILURE, first, f"function {name} has {lines} lines (limit {FUNCTION_WARNING})"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    files = failures = warnings = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in FILE_WARNING:
                continue
            files += 1
            for failed, line, message in check_file(path):
                failures += failed
                warnings += not failed
                print(f"{path.relative_to(root)}:{line}: {'error' if failed else 'warning'}: {message}")
    print(f"check_shape: {files} files, {warnings} warning(s), {failures} error(s)")
    return 1 if failures or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
