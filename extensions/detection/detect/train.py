"""Training: scikit-learn fits, the result is taken out as plain arrays and calibrated on other scenes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import SetupError, require
from cosim.contract.jammer import CAUSES
from cosim.extensions.detection.dataset.leakage import auc, feature_names, index_of, made, matrix, people, read
from cosim.extensions.detection.dataset.recipe import SPLITS
from cosim.extensions.detection.dataset.windows import KINDS
from cosim.extensions.detection.detect.detector import Detector, columns_of, with_ratios
from cosim.extensions.detection.detect.judge import counting
from cosim.extensions.detection.detect.network import LAGS, lagged, lagged_names, learn

Method = Literal["thresholds", "logistic", "cnn", "forest", "boosting"]
Limit = Literal["rate", "best"]
METHODS: tuple[Method, ...] = ("thresholds", "logistic", "cnn", "forest", "boosting")
_MOST = 200_000  # rows that are fitted to, drawn at random from more
_REPEATS = 3  # of a permutation
_APART = 0.5  # 1 - |rho| from which on columns are not in one cluster

Floats = NDArray[np.float64]
Labels = NDArray[np.bool_]
Made = tuple[str, dict[str, NDArray[Any]], dict[str, Any]]  # form, arrays and facts of a detector


def train(
    folder: str | Path, method: Method = "boosting", *, false_alarms: float = 0.02, limit: Limit = "best",
    seed: int = 1, importance: bool = True, only: str = "",
) -> Detector:  # fmt: skip
    """A detector fitted to the split `train` of a data set, with its limit set on the split `valid`.

    The limit is that of `calibrated` on the rows of `valid` that count by `only`, as in `judge`. The permutation
    importance of a column (with its mean, deviation and difference) is what the area under the curve on `valid` loses
    when its rows are shuffled; that of a quantity shuffles the columns of all logs together that have it, that of a
    cluster those that `clusters_of` puts together. Raises `SetupError` for a split that is missing or has one class
    only, and without scikit-learn.
    """
    folder = made(folder)
    rows, held = read(folder, "train"), read(folder, "valid")
    if not len(rows) or not len(held):
        raise SetupError(f"{folder} has no rows to train with and to calibrate on; see 'cosim dataset --shares'")
    names = feature_names(rows)
    x, y = matrix(rows).astype(np.float64), _labels(rows)
    v, w = matrix(held).astype(np.float64), _labels(held)
    for split, label in (("train", y), ("valid", w)):
        if label.all() or not label.any():
            raise SetupError(
                f"the split '{split}' of {folder} has one class only; it needs rows with and without the label"
            )
    if np.isnan(x).all(axis=0).all():
        raise SetupError(f"no column of the split 'train' of {folder} has a value to learn from")
    recipe = index_of(folder, "recipe")
    if method == "cnn":
        if float(recipe["every"]) > 0.0 or recipe.get("sample"):
            raise SetupError("a network looks at all rows one after another; leave out --every and --sample")
        kept = [names.index(name.removesuffix("@0")) for name in lagged_names(names) if name.endswith("@0")]
        x, v = (lagged(part[:, kept], people(table), LAGS).astype(np.float64) for part, table in ((x, rows), (v, held)))
        names = lagged_names(names)
    ratios = ratios_of(names, levels_of(folder)) if method in ("forest", "boosting") else None
    signals = recipe["signals"]
    weight = rows["weight"].to_numpy() if "weight" in rows.column_names else None
    window = float(recipe["window"])
    found = fit(x, y, names, method, seed=seed, window=window, signals=signals, ratios=ratios, weight=weight)
    counts = counting(held, w, only)
    found = calibrated(found, v[counts], w[counts], false_alarms, limit)
    if not signals or any("@" in signal for signal in signals) or recipe.get("at") or recipe.get("within"):
        found = replace(found, facts={**found.facts, "offline": True})  # windows that no adapter builds
    if "truth_cause" in rows.column_names:
        found = with_causes(found, x, np.asarray(rows["truth_cause"].to_pylist()), seed)
    if importance:
        clusters = clusters_of(v, names)
        ways = {"importance": _column, "quantities": _quantity, "clusters": lambda name: clusters[_column(name)]}
        facts = {**found.facts, **{key: _importance(found, v, w, seed, of) for key, of in ways.items()}}
        found = replace(found, facts=facts)
    return found


def fit(
    x: Floats, y: Labels, names: list[str], method: Method, *, seed: int = 1, window: float = 5.0,
    signals: list[str] | None = None, ratios: NDArray[np.int64] | None = None, weight: Floats | None = None,
) -> Detector:  # fmt: skip
    """A detector fitted to rows `x` (n, k) with labels `y` (n,); its limit is a score of one half.

    Trees see the differences of the columns `ratios` (r, 2) as well. A row counts `weight` (n,) times, but for limits.
    """
    if method not in METHODS:
        raise SetupError(f"there is no method '{method}'; there are {', '.join(METHODS)}")
    require("learn", "sklearn", *(["torch"] if method == "cnn" else []))
    if len(x) > _MOST:
        some = np.sort(np.random.default_rng(seed).permutation(len(x))[:_MOST])
        x, y, weight = x[some], y[some], None if weight is None else weight[some]
    with np.errstate(all="ignore"):
        fill = np.nan_to_num(np.array([np.median(c[~np.isnan(c)]) if (~np.isnan(c)).any() else 0.0 for c in x.T]))
    x = np.where(np.isnan(x), fill, x)
    if ratios is not None and len(ratios):
        x = with_ratios(x, ratios)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums in one order, and no threads that wait for each other on a busy machine
        seen = [*names, *(f"{names[a]} - {names[b]}" for a, b in ([] if ratios is None else ratios.tolist()))]
        form, arrays, facts = _MAKERS[method](x, y, seen, seed, weight)
    if ratios is not None and len(ratios):
        arrays = {**arrays, "ratios": ratios}
    return Detector(method, form, tuple(names), window, 0.5, fill, arrays, {"signals": list(signals or ()), **facts})


def with_causes(detector: Detector, x: Floats, cause: NDArray[Any], seed: int = 1) -> Detector:
    """`detector` that also predicts the cause of a bad link, fitted to rows `x` (n, k) whose `cause` (n,) is not none.

    Classes have equal weights, however many rows they have. Raises `SetupError` if there is no such row.
    """
    some = np.flatnonzero(cause != CAUSES[0])
    if not len(some):
        raise SetupError("no training row has a cause; see the rules of --cause")
    if len(some) > _MOST:
        some = np.sort(np.random.default_rng(seed).permutation(some)[:_MOST])
    names = [name for name in CAUSES if (cause[some] == name).any()]
    y = np.array([names.index(name) for name in cause[some].tolist()])
    rows = with_ratios(np.where(np.isnan(x[some]), detector.fill, x[some]), detector.ratios)
    bias, trees, of = np.zeros(len(names)), [], []
    if len(names) == 1:  # nothing to distinguish: a leaf
        trees.append((np.array([-1]), np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1)))
        of.append(0)
    else:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            model = HistGradientBoostingClassifier(
                max_iter=60, learning_rate=0.1, max_leaf_nodes=15, min_samples_leaf=40, l2_regularization=1.0,
                class_weight="balanced", early_stopping=False, random_state=seed,
            ).fit(rows, y)  # fmt: skip
        single = len(names) == 2  # one score, of the second
        bias[1 if single else 0 :] = np.ravel(model._baseline_prediction)
        for round_ in model._predictors:
            for k, tree in enumerate(round_):
                trees.append(_nodes(tree))
                of.append(1 if single else k)
    arrays = {f"cause_{name}": values for name, values in _joined(trees, 0.0).items()}
    arrays |= {"cause_bias": bias, "cause_of": np.array(of, np.int64)}
    return replace(detector, arrays={**detector.arrays, **arrays}, facts={**detector.facts, "causes": names})


def levels_of(folder: Path) -> set[str]:
    """The columns of a data set that are levels, in dB or dBm, after its card."""
    try:
        card = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
        fields = [dict(one) for group in card["recordSet"] for one in group["field"]]
    except (OSError, ValueError, LookupError, TypeError):
        raise SetupError(
            f"{folder / 'croissant.json'} is missing or damaged; it says which columns are levels"
        ) from None
    found = {str(one["name"]) for one in fields if str(one.get("description", "")).endswith(("(dB)", "(dBm)"))}
    return {name for name in found if not name.endswith(KINDS[1:])}


def ratios_of(names: list[str], levels: set[str]) -> NDArray[np.int64]:
    """Pairs (r, 2) of the features `names` that are values, or means, of two of the columns `levels`.

    A jammer shows in how levels stand to one another: a phone that hears its cell well is badly heard.
    """
    kinds = [[k for k, name in enumerate(names) if name.endswith(end) and name.removesuffix(end) in levels]
             for end in KINDS[:2]]  # fmt: skip
    pairs = [(a, b) for kind in kinds for a, b in combinations(kind, 2)]
    return np.array(pairs, np.int64).reshape(-1, 2)


def calibrated(
    detector: Detector, rows: Floats, labels: Labels, false_alarms: float, limit: Limit = "best"
) -> Detector:
    """`detector` with a limit that a share `false_alarms` at most of the rows without the label exceeds.

    `rate`: the limit that this share exceeds. `best`: of those that no greater share exceeds the one with the highest
    F1 on `rows` (n, k), in the middle between two scores; without rows with the label that of `rate`. Where the
    label is rare a small share of the other rows is many of the alarms, and the limit of a rate lies just above what
    is normal in these rows; `best` leaves room.
    """
    if not 0.0 < false_alarms < 1.0:
        raise SetupError(f"a rate of false alarms is between 0 and 1, not {false_alarms:g}")
    if limit not in get_args(Limit):
        raise SetupError(f"there is no limit '{limit}'; there are {', '.join(get_args(Limit))}")
    score = detector.score(rows)
    negative = score[~labels]
    found = float(np.quantile(negative, 1.0 - false_alarms, method="higher"))
    if limit == "best":
        found = _best(score, labels, found)
    facts = {**detector.facts, "false_alarms": false_alarms, "calibrated_on": len(negative)}
    return replace(detector, limit=found, facts=facts)


def quieted(detector: Detector, folder: str | Path, false_alarms: float = 0.001) -> Detector:
    """`detector` with a limit that at most a share `false_alarms` of a network's own rows without the label exceeds.

    `folder` is a data set of that network, all splits of which count; a quiet period of it has no rows with the label.
    The limit is never below the one of the training, which scenes with jammers have set. Raises `SetupError` for
    a data set without such rows, and for one of other columns.
    """
    folder, found = made(folder), []
    for split in SPLITS:
        table = read(folder, split)
        if len(table):
            rows = matrix(table)[:, columns_of(detector, feature_names(table))]
            found.append((lagged(rows, people(table), detector.lags) if detector.lags > 1 else rows)[~_labels(table)])
    quiet = np.concatenate([np.empty((0, len(detector.features))), *found])
    if not len(quiet):
        raise SetupError(f"{folder} has no rows without the label; calibrate on a period without a jammer")
    there = calibrated(detector, quiet, np.zeros(len(quiet), bool), false_alarms)
    return replace(there, limit=max(there.limit, detector.limit))


def _best(score: Floats, labels: Labels, least: float) -> float:
    """The limit from `least` on with the highest F1; scores above it are alarms."""
    order = np.argsort(-score, kind="stable")
    ranked, hits = score[order], np.cumsum(labels[order])
    last = np.flatnonzero(np.append(np.diff(ranked) < 0.0, True) & (ranked > least))  # of each score, from above
    if not len(last) or not hits[last[-1]]:
        return least
    f1 = 2.0 * hits[last] / (last + 1.0 + hits[-1])
    best = int(last[np.flatnonzero(f1 == f1.max())[-1]])
    below = max(float(ranked[best + 1]), least) if best + 1 < len(ranked) else least
    return float(0.5 * (ranked[best] + below)) if below > least else least


def _labels(table: Any) -> Labels:  # noqa: ANN401 - pyarrow has no types
    return np.asarray(table["label"].to_numpy(zero_copy_only=False), bool)


def _thresholds(x: Floats, y: Labels, names: list[str], _seed: int, _weight: Floats | None) -> Made:
    """The lowest mean SINR and mean PDR of a window that are normal: an alarm when either is below its limit."""
    wanted = [k for k, name in enumerate(names) if name.endswith(("_sinr_mean", "_pdr_mean"))]
    if not wanted:
        raise SetupError("thresholds need the columns sinr and pdr of signals such as ue and gnb")
    scale = np.array([max(float(x[:, k].std()), 1e-9) for k in wanted])
    middle = np.array([float(np.median(x[~y][:, k])) for k in wanted])
    return "thresholds", {"weight": -1.0 / scale, "column": np.array(wanted, np.int64), "limit": middle}, {}


def _linear(x: Floats, y: Labels, _names: list[str], _seed: int, weight: Floats | None) -> Made:
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    model = LogisticRegression(C=1.0, max_iter=300, class_weight="balanced").fit((x - mean) / scale, y, weight)
    return "linear", {"weight": model.coef_[0], "bias": model.intercept_, "mean": mean, "scale": scale}, {}


def _forest(x: Floats, y: Labels, _names: list[str], seed: int, weight: Floats | None) -> Made:
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(
        100, min_samples_leaf=5, max_samples=min(1.0, 50_000 / len(x)), class_weight="balanced", random_state=seed,
        n_jobs=1,
    ).fit(x.astype(np.float32), y, weight)  # fmt: skip
    trees = []
    for one in model.estimators_:
        tree = one.tree_
        value = tree.value[:, 0, 1] / tree.value[:, 0, :].sum(axis=1) / len(model.estimators_)
        inner = tree.children_left >= 0
        trees.append(
            (np.where(inner, tree.feature, -1), tree.threshold, tree.children_left, tree.children_right, value)
        )
    return "trees", _joined(trees, 0.0), {"link": "identity"}


def _grows(name: str) -> int:
    """Whether a score may only grow (1) or fall (-1) with a feature, or a difference of two, as the excess does."""
    sides = [part.removesuffix("_mean").endswith("_excess") for part in name.split(" - ")]
    return sides[0] - (sides[1] if len(sides) > 1 else 0)


def _boosting(x: Floats, y: Labels, names: list[str], seed: int, weight: Floats | None) -> Made:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=200, learning_rate=0.08, max_leaf_nodes=31, min_samples_leaf=40, l2_regularization=1.0,
        monotonic_cst=list(map(_grows, names)), random_state=seed,
    ).fit(x, y, weight)  # fmt: skip
    trees = [_nodes(tree) for (tree,) in model._predictors]  # scikit-learn has no public name for the fitted trees
    return "trees", _joined(trees, float(np.ravel(model._baseline_prediction)[0])), {"link": "logistic"}


def _nodes(tree: Any) -> tuple[Any, ...]:  # noqa: ANN401 - scikit-learn has no types
    """Arrays of a tree of histogram boosting."""
    nodes = tree.nodes
    feature = np.where(nodes["is_leaf"] == 0, nodes["feature_idx"], -1)
    return feature, nodes["num_threshold"], nodes["left"], nodes["right"], nodes["value"]


def _network(x: Floats, y: Labels, names: list[str], seed: int, _weight: Floats | None) -> Made:
    return "network", learn(x, y, names, seed), {}


_MAKERS = {"thresholds": _thresholds, "logistic": _linear, "cnn": _network, "forest": _forest, "boosting": _boosting}


def _joined(trees: list[tuple[Any, ...]], bias: float) -> dict[str, NDArray[Any]]:
    """All trees in one set of arrays; children are numbered through."""
    sizes = np.array([len(tree[0]) for tree in trees])
    root = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    kinds = (np.int64, np.float64, np.int64, np.int64, np.float64)
    parts = [np.concatenate([np.asarray(tree[k], kind) for tree in trees]) for k, kind in enumerate(kinds)]
    shift = np.repeat(root, sizes)
    feature, threshold, left, right, value = parts
    return {
        "root": root, "feature": feature, "threshold": threshold, "left": left + shift, "right": right + shift,
        "value": value, "bias": np.array([bias]),
    }  # fmt: skip


def _importance(
    detector: Detector, rows: Floats, labels: Labels, seed: int, of: Callable[[str], str]
) -> dict[str, float]:
    """Loss of the area under the curve by what features are `of`, greatest first; those are shuffled together."""
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(rows))[:10_000]
    rows, labels = rows[some], labels[some]
    whole = auc(detector.score(rows), labels)
    groups: dict[str, list[int]] = {}
    for k, name in enumerate(detector.features):
        groups.setdefault(of(name), []).append(k)
    found = {}
    for name, members in groups.items():
        lost = []
        for _ in range(_REPEATS):
            shuffled = rows.copy()
            shuffled[:, members] = rows[rng.permutation(len(rows))][:, members]
            lost.append(whole - auc(detector.score(shuffled), labels))
        found[name] = float(np.mean(lost))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def clusters_of(rows: Floats, names: list[str]) -> dict[str, str]:
    """Columns whose values rank the rows (n, k) similarly: column -> the names of its cluster, joined.

    Average linkage on 1 - |rho|, Spearman's; clusters are cut at `_APART`. Shuffling only one of several equivalent
    columns shows no effect, since a model reads the same information from the others.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform
    from scipy.stats import rankdata

    columns = {_column(name): k for k, name in reversed(list(enumerate(names)))}  # the first of each: its value
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), 10_000)).astype(np.int64)][:, list(columns.values())]
    ranks = rankdata(np.nan_to_num(some, nan=-np.inf, neginf=-np.inf), axis=0)
    ranks -= ranks.mean(axis=0)
    norm = np.sqrt((ranks**2).sum(axis=0))
    alike = np.abs(ranks.T @ ranks) / np.maximum(np.outer(norm, norm), 1e-12)  # 0 for what never changes
    apart = np.clip(1.0 - alike, 0.0, 1.0)
    np.fill_diagonal(apart, 0.0)
    if len(columns) < 2:
        return {name: name for name in columns}
    group = fcluster(linkage(squareform(apart, checks=False), "average"), _APART, "distance")
    members: dict[int, list[str]] = {}
    for name, one in zip(columns, group.tolist(), strict=True):
        members.setdefault(one, []).append(name)
    return {name: " + ".join(sorted(several)) for several in members.values() for name in several}


def _column(feature: str) -> str:
    """The column that a feature is made of."""
    base = feature.partition("@")[0]
    for end in KINDS[1:]:
        base = base.removesuffix(end)
    return base


def _quantity(feature: str) -> str:
    """What is measured, in whichever log: sinr of ue_sinr_mean; columns begin with the name of their signal."""
    column = _column(feature)
    return column.partition("_")[2] or column
