"""What the page on autodiff says that its programs print, they print. `python -m tests.gradients.test_page` writes it down anew."""

import contextlib
import io
import os
import pathlib
import re
import tempfile

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "gradients" / "autodiff.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def printed(page):
    """For each program of the page: where in the text its output is, what is there, and what it prints."""
    found, namespace = [], {"__name__": "__main__"}
    for program in PROGRAM.finditer(page):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * page[: program.start(1)].count("\n") + program[1], str(PAGE), "exec"), namespace)
        found.append((program.span(2), program[2] or "", out.getvalue()))
    return found


def test_the_page_shows_what_its_programs_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, shown, said in printed(PAGE.read_text()):
        assert shown == said


if __name__ == "__main__":
    os.chdir(tempfile.mkdtemp())  # the page is then shown by its name, as in the test
    for _ in range(2):  # what is written moves the lines
        text = PAGE.read_text()
        for (start, end), _, said in reversed(printed(text)):
            text = text[:start] + said + text[end:] if start >= 0 else text
        PAGE.write_text(text)
