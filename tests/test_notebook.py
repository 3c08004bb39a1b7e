"""The notebook: it runs, and what is committed is what a run left, without marks of the machine it ran on."""

import pathlib
import re

import nbclient
import nbformat
import pytest

PATH = pathlib.Path(__file__).resolve().parent.parent / "experiments" / "tour.ipynb"
SHOWN = {"image/svg+xml", "image/png", "image/gif", "text/plain", "stdout"}  # no "stderr", no "error"


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(outputs) -> set[str]:
    """What is shown: kinds of pictures and text, and "stdout" or "stderr" for what was printed."""
    return {kind for output in outputs for kind in output.get("data", [output.get("name", "error")])}


@pytest.mark.slow
def test_the_notebook_runs():
    notebook = nbformat.read(PATH, as_version=4)
    committed = [kinds(cell.outputs) for cell in code_cells(notebook)]
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()  # raises if a cell does
    assert [kinds(cell.outputs) for cell in code_cells(notebook)] == committed


def test_the_committed_notebook_is_a_clean_run():
    notebook = nbformat.read(PATH, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert kinds(output for cell in cells for output in cell.outputs) == SHOWN
    assert PATH.stat().st_size < 1_500_000
    assert not re.search(r"[\"'\s](/(home|root|tmp|usr|work)/|[A-Z]:\\\\)", PATH.read_text())
