"""Judgement by statistics: queues with known answers, responses of other tasks, recordings that do not go together."""

import ast
import functools
from pathlib import Path

import numpy as np
import pytest

from cosim.twin.judgement.course import Course
from cosim.twin.judgement.judge import _left_over, chance, corrected, judge, of_case, others, worst
from cosim.twin.judgement.pairs import pairs
from cosim.twin.judgement.subject import RECORDING, Judged, JudgedStatistic, Subject
from cosim.twin.judgement.table import ORDERLY, TABLE, WARM, figures
from cosim.twin.judgement.verdict import sentence, verdict
from cosim.twin.problem import Case, MeasuredSignal

COUNT, SERVICE = 400, 0.1
NAMES = [one.name for one in TABLE]


def tasks(created, values):
    return Course(values, created, tasks=True, scale=SERVICE)


def queue(service, seed, load=0.6):
    """Created, and responses (s) of one server in order of arrival; Lindley's recursion."""
    random = np.random.default_rng(seed)
    created = np.cumsum(random.exponential(SERVICE / load, COUNT))
    works, waits = service * random.exponential(size=COUNT), np.zeros(COUNT)
    for k in range(1, COUNT):
        waits[k] = max(0.0, waits[k - 1] + works[k - 1] - (created[k] - created[k - 1]))
    return created, waits + works


def test_statistics_of_tasks_with_known_order():
    created = np.arange(40.0)
    alone = tasks(created, np.full(40, 0.5)).queue
    assert alone["overtaken"] == 0.0
    assert alone["found"] == 0.0  # nothing differs
    slow = np.where(np.arange(40) % 4 == 0, 1.5, 0.2)  # every fourth ends behind the one that follows it
    found = tasks(created, slow).queue
    assert found["overtaken"] == pytest.approx(10 / 39)
    assert found["moved"] == pytest.approx(20 / 40)
    assert tasks(created[:20], slow[:20]).queue == {}


def test_a_clock_that_goes_faster_changes_no_order():
    """Times and responses of a queue at s times the pace are those of another queue: no table shows s."""
    created, values = queue(SERVICE, 1)
    assert tasks(1.01 * created, 1.01 * values).queue == pytest.approx(tasks(created, values).queue, abs=1e-9)


@functools.cache
def simulated(service, seed):
    return figures(tasks(*queue(service, seed)))[None]


def judged(created, values, seed=3):
    subject = Subject("response", scale=SERVICE)
    one = Judged((subject,), figures(tasks(created, values))[None], lambda draw, run: simulated(float(draw[0]), run))
    draws = SERVICE * np.random.default_rng(seed).normal(1.0, 0.03, (200, 1))
    return worst(corrected(judge(one, one.made(draws, range(200)), draws)), 6)


def test_responses_that_belong_to_their_tasks_are_not_doubted():
    """12 sound sets, each with a hundredth of a chance of a false word."""
    assert sum(bool(judged(*queue(SERVICE, seed))) for seed in range(101, 113)) <= 1


@pytest.mark.parametrize("seed", range(101, 104))
@pytest.mark.parametrize("change", ["shuffled", "shifted", "longer"])
def test_responses_of_other_tasks_are_named(change, seed):
    created, values = queue(SERVICE, seed)
    random = np.random.default_rng(seed)
    other = {
        "shuffled": random.permutation(values),
        "shifted": np.roll(values, 1),
        "longer": values + 10.0 * SERVICE * (random.random(COUNT) < 0.04),
    }
    assert any(one.remedy in (ORDERLY, WARM) for one in judged(created, other[change]))


CHANGES = {
    "rounded": lambda created, values: (created, np.maximum(np.round(values, 1), 0.1)),
    "a word for a missing value": lambda created, values: (created, np.where(np.arange(COUNT) % 11 == 5, 0.0, values)),
    "averaged over a window": lambda created, values: (
        created[9:], np.convolve(values, np.ones(10) / 10, mode="valid")),
    "tried again": lambda created, values: (np.repeat(created, 2)[:COUNT], values),
    "rows are missing": lambda created, values: (created[(created < 20) | (created > 30)],
                                                 values[(created < 20) | (created > 30)]),
    "a counter": lambda created, values: (created, np.cumsum(values)),
}  # fmt: skip


@pytest.mark.parametrize("fault", CHANGES)
def test_a_fault_is_named_as_what_it_is(fault):
    found = judged(*CHANGES[fault](*queue(SERVICE, 7)))
    assert any(fault in one.remedy for one in found), [str(one) for one in found]


def test_pairs_that_do_not_go_together_are_told():
    _, values = queue(SERVICE, 1)
    random = np.random.default_rng(2)

    def reported(measured, times=None):
        observed = {"response": MeasuredSignal(measured, "s", paired=True, times=times)}
        made = Case(observed, lambda points, seed: {"response": values[None]}, tasks=frozenset(observed))
        return "".join(pairs(made, np.ones(1), 1))

    near = values * random.normal(1.0, 0.02, COUNT)
    assert reported(near) == ""
    assert "do not take longer where" in reported(random.permutation(near))
    assert "took another time than" in reported(np.where(random.random(COUNT) < 0.05, 3.0 * near, near))
    # Those at the end were held up by tasks that had not ended when the recording did.
    created = np.linspace(0.0, 30.0 * values.max(), COUNT)
    last = created > created[-1] - values.max()
    assert "took another time than" in reported(np.where(last, 3.0 * values, values))
    assert reported(np.where(last, np.minimum(3.0 * values, values.max()), values), created) == ""


def test_the_recording_that_does_not_fit_is_named_with_its_size():
    random = np.random.default_rng(4)
    names, slow = ("low", "mid", "high"), {"low": 1.0, "mid": 1.46, "high": 1.0}

    def rows(mean):
        return np.stack([figures(Course(mean[k] * random.lognormal(0, 0.5, 300))) for k in range(3)])

    draws = random.normal(1.0, 0.05, (300, 1))
    made = np.stack([rows(np.repeat(draw, 3)) for draw in draws])
    subjects = tuple(Subject(f"{name} response", name) for name in names)
    sound = Judged(subjects, rows(np.ones(3)), lambda draw, seed: draw)
    assert not [one for one in corrected(others([(sound, made)], draws)) if one.odd]
    lying = Judged(subjects, rows(np.array(list(slow.values()))), lambda draw, seed: draw)
    found = [one for one in corrected(others([(lying, made)], draws)) if one.odd]
    lie = min(found, key=lambda one: one.others)
    assert lie.check == RECORDING.name
    assert lie.subject.recording == "mid"
    assert lie.effect == pytest.approx(0.46, abs=0.12)
    assert lie.others < 2.0  # the others agree with one another
    assert all(one.others > 5.0 for one in found if one.subject.recording != "mid")


def test_a_recording_with_another_law_is_the_one_that_lies_though_its_mean_is_right():
    """Its quantiles bend what is predicted of the others: they are off, and agree only without it."""
    random = np.random.default_rng(0)

    def rows(mean, spreads):
        return np.stack([figures(Course(mean * random.lognormal(-0.5 * s * s, s, 300))) for s in spreads])

    subjects = tuple(Subject(f"{name} response", name) for name in ("low", "mid", "high"))
    measured = {one.signal: MeasuredSignal(np.ones(1), "s") for one in subjects}
    draws, said = random.normal(1.0, 0.2, (300, 1)), {0.5: [], 1.0: []}
    for spread in [*said] * 6:
        judged = Judged(subjects, rows(1.0, (0.5, spread, 0.5)), lambda draw, _: rows(draw[0], (0.5, 0.5, 0.5)))
        case = Case(measured, lambda *_: {}, judged=judged)
        found = verdict([(case, "fit")], draws, range(300))
        if found.lie is not None:
            said[spread].append(sentence(found.lie, [(case, "fit")]))
            assert {one.subject.recording for one in found.words} == {"mid"}
    assert said[0.5] == []
    assert len(said[1.0]) > 3
    assert all(text.startswith("recording 'mid' does not fit: ") for text in said[1.0])
    assert any(": without it the model makes 'low' and 'high' (p " in text for text in said[1.0])


def test_the_node_that_does_not_fit_the_others_is_named_with_its_size():
    random = np.random.default_rng(8)
    nodes = ("a", "b", "c")

    def rows(mean):
        values = [mean[k] * random.lognormal(0, 0.5, 300) for k in range(3)]
        return np.stack([figures(Course(one)) for one in (*values, np.concatenate(values))])

    draws = random.normal(1.0, 0.05, (300, 1))
    made = np.stack([rows(np.repeat(draw, 3)) for draw in draws])
    subjects = (*(Subject("power", node=name) for name in nodes), Subject("power"))
    sound = Judged(subjects, rows(np.ones(3)), lambda draw, seed: draw)
    assert not [one for one in corrected(others([(sound, made)], draws)) if one.odd]
    lying = Judged(subjects, rows(np.array([1.0, 1.5, 1.0])), lambda draw, seed: draw)
    found = [one for one in corrected(others([(lying, made)], draws)) if one.odd]
    (lie,) = (one for one in found if one.subject.node == "b")
    assert lie.effect == pytest.approx(0.5, abs=0.15)
    assert str(lie).startswith("'power' of b does not fit: it is ")


def test_names_that_are_exchanged_are_named_as_that():
    random = np.random.default_rng(6)

    def rows(levels):
        return np.stack([figures(Course(level + random.normal(0, 0.2, 60))) for level in levels])

    made, draws = np.stack([rows((3.0, 9.0)) for _ in range(200)]), random.normal(size=(200, 1))
    one = Judged((Subject("power", node="a"), Subject("power", node="b")), rows((9.0, 3.0)), lambda draw, seed: draw)
    found = worst(corrected(judge(one, made, draws)), 6)
    assert sum("exchanged? (" in row.remedy for row in found) == 2


@pytest.mark.parametrize("p", [1e-6, 1e-4, 1e-3])
@pytest.mark.parametrize("together", [False, True])
def test_p_values_are_corrected_for_a_family_that_may_vary_together(p, together):
    """The closed form of the least of m p values: 1 - (1 - p)^m, and p itself where all are the same."""
    random, m = np.random.default_rng(9), 50
    nulls = np.repeat(random.random((1, 1000)), m, axis=0) if together else random.random((m, 1000))
    rows = [JudgedStatistic(Subject("x"), "mean", "", 0, 0, 0, 0, 0, p, p, "", null=null) for null in nulls]
    expected = p if together else 1.0 - (1.0 - p) ** m
    assert np.log(corrected(rows)[0].adjusted) == pytest.approx(np.log(expected), abs=1.0)


def test_p_values_of_a_simulated_null_are_even():
    random = np.random.default_rng(8)
    some = np.array([chance(float(random.normal()), random.normal(size=200), 0.0, 0)[0] for _ in range(400)])
    assert np.quantile(some, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.06)
    assert chance(6.0, random.normal(size=400), 0.0, 0)[0] < 1e-4
    assert chance(6.0, random.normal(size=400), 0.0, -1)[0] > 0.9
    assert chance(0.3, np.zeros(50), 0.05, 1)[0] < 1e-6  # what no simulation does


@pytest.mark.parametrize("count", [20, 100])
def test_p_values_beyond_all_simulations_are_met_no_more_often(count):
    """Few simulations make no p too small."""
    random = np.random.default_rng(10)
    some = np.array([chance(float(random.normal()), random.normal(size=count), 0.0, 1)[0]
                     for _ in range(20_000)])  # fmt: skip
    assert np.mean(some < 1e-3) < 2e-3
    own = np.concatenate([chance(0.0, random.normal(size=count), 0.0, 1)[1] for _ in range(20_000 // count)])
    assert np.mean(own < 1e-3) < 2e-3  # of simulations judged by the others


def test_more_statistics_and_fewer_simulations_make_no_more_false_words():
    """Six signals of a sound model, 24 simulations each: about one set in a hundred may have a word."""
    odd = 0
    for repeat in range(16):
        random = np.random.default_rng([7, repeat])
        truth, *draws = 1.0 + 0.05 * random.standard_normal((25, 1))

        def made(values, seed):
            rows = np.random.default_rng(seed).lognormal(0.0, 0.8, (6, 120))
            return {f"signal {k}": float(np.ravel(values)[0]) * row[None] for k, row in enumerate(rows)}

        observed = {name: MeasuredSignal(row[0], "s") for name, row in made(truth, 10_000 + repeat).items()}
        one = of_case(Case(observed, made))
        odd += bool(worst(corrected(judge(one, one.made(np.array(draws), range(24)), np.array(draws))), 6))
    assert odd <= 1


def test_simulations_are_judged_as_a_measurement_is():
    """Draws with long tails bend what is linear in them: a run that is left in seems nearer to it than data can be."""
    random, check = np.random.default_rng(12), TABLE[NAMES.index("bursts")]
    real, runs = [], []
    for _ in range(1500):
        draws = random.standard_t(3, (41, 2))
        rows = draws @ random.standard_normal((2, 8)) + random.standard_normal((41, 8))
        left, others = _left_over(rows[0], rows[1:], draws[1:], [check] * 8)
        real.append(np.abs(left).max())
        runs.append(np.abs(others).max(axis=1).mean())
    assert np.mean(real) == pytest.approx(np.mean(runs), rel=0.04)


def test_a_shape_has_no_edge_at_which_chance_makes_two_kinds_of_it():
    """Where a tenth of the values lie at the lowest, half of the samples have their first tenth just above it."""
    random, of = np.random.default_rng(13), TABLE[NAMES.index("lower edge")].of
    some = np.array([of(Course(np.maximum(random.random(80), 0.1), scale=0.5)) for _ in range(400)])
    assert np.isfinite(some).all()
    assert np.abs(some - some.mean()).max() < 4.0 * some.std()


def test_too_few_values_say_nothing():
    case = Case({"time": MeasuredSignal(np.arange(10.0), "s")}, lambda values, seed: {})
    assert of_case(case).subjects == ()


def test_a_name_stands_once():
    assert len(set(NAMES)) == len(NAMES)


def constants():
    """(file, names, whether a comment stands beside) of every number that a module of the room names."""
    for path in sorted((Path(__file__).parents[4] / "cosim" / "twin").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.parse("\n".join(lines)).body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            values = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
            if numbers and all(name.isupper() for name in names) and names != ["TABLE"]:
                beside = lines[node.lineno - 1 : node.end_lineno] + lines[max(node.lineno - 4, 0) : node.lineno - 1]
                yield path.name, names, any("#" in line for line in beside)


def test_numbers_that_decide_have_a_reason_beside_them():
    found = list(constants())
    assert not [one for one in found if not one[2]]
    assert len(found) <= 74  # 161 before there was one table
