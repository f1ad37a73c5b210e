"""Results that are kept: a file that holds some of them is gone on with, unless the code has changed."""

from cosim.extensions.reproduce.kept import resumed


def test_what_a_file_holds_is_not_made_again(tmp_path):
    notes: list[str] = []
    made, code, file = [], tmp_path / "code.py", tmp_path / "kept" / "runs.jsonl"
    code.write_text("one = 1\n")

    def make(n):
        made.append(n)
        return {"n": n, "square": float(n * n)}

    cases = {f"run {n}": (n,) for n in (3, 1, 2)}
    first = resumed(make, {"run 1": (1,)}, file, [code])
    with file.open("a") as out:
        out.write('{"case": "run 2", "co')  # cut short when the run before was killed
    assert resumed(make, cases, file, [tmp_path], notify=notes.append) == [
        {"n": n, "square": float(n * n)} for n in (3, 1, 2)
    ]
    assert first == [{"n": 1, "square": 1.0}]
    assert made == [1, 3, 2]
    assert notes[-1].startswith("2/2  run 2")
    assert resumed(make, cases, file, [code]) == [{"n": n, "square": float(n * n)} for n in (3, 1, 2)]
    assert made == [1, 3, 2]
    code.write_text("one = 2\n")
    resumed(make, cases, file, [code])
    assert made == [1, 3, 2, 3, 1, 2]
