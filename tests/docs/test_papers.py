"""What a stranger looks for before using the code: licences of all that it needs, and how to cite it."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/licences.md").read_text("utf-8")
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = DECLARED["project"]
FAMILIES = {
    "LGPL": r"\bLGPL|Lesser General Public",
    "GPL": r"\bA?GPL|(?<!Lesser )General Public",
    "EPL": r"\bEPL|Eclipse Public",
    "MPL": r"\bMPL|Mozilla Public",
    "MIT": r"\bMIT\b",
    "BSD": "BSD",
    "Apache": "Apache",
    "ISC": r"\bISC\b",
    "PSF": r"\bPSF|Python Software Foundation",
}
MORE_THAN_A_NOTICE = {"LGPL", "GPL", "EPL", "MPL"}


def names(requirements):
    return {re.match(r"[\w.-]+", one)[0] for one in requirements} - {PROJECT["name"]}


def families(text):
    return {name for name, pattern in FAMILIES.items() if re.search(pattern, text, re.IGNORECASE)}


def reported(package):
    """The families of licences that an installed package says it has; none where it says nothing."""
    facts = metadata(package)
    kinds = [line for line in facts.get_all("Classifier") or [] if line.startswith("License ::")]
    return families("\n".join([facts.get("License-Expression", ""), facts.get("License", "").strip()[:80], *kinds]))


def rows():
    """Who needs which packages, and their licences, as the first table has it."""
    table = re.search(r"^\| needed by.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)[0]
    for who, packages in re.findall(r"^\| (?!needed)`?([\w]+)[^|]*\| (`.*) \|$", table, re.MULTILINE):
        yield who, dict(re.findall(r"`([\w.-]+)` ([^`]+?)(?:,|$) ?", packages))


LICENCES = {package: licence for _, packages in rows() for package, licence in packages.items()}


def test_every_package_that_is_declared_has_its_licence_in_the_table():
    needed = {"core": PROJECT["dependencies"], "building": DECLARED["build-system"]["requires"]}
    needed |= PROJECT["optional-dependencies"]
    assert {who: set(packages) for who, packages in rows()} == {who: names(needed[who]) for who in needed}


def test_the_table_says_of_a_package_what_the_package_says():
    other, looked = {}, set()
    for package, licence in LICENCES.items():
        try:
            said, found = families(licence), reported(package)
        except PackageNotFoundError:
            continue
        looked.add(package)
        if not said or (found and (not said <= found or (said ^ found) & MORE_THAN_A_NOTICE)):
            other[package] = (licence, found)
    assert other == {}
    assert names(PROJECT["dependencies"]) <= looked


def test_whatever_asks_for_more_than_a_notice_is_named():
    left, seen = set(LICENCES), set()
    while left:
        package = left.pop()
        seen.add(package)
        try:
            left |= names(line for line in requires(package) or () if "extra ==" not in line) - seen
        except PackageNotFoundError:  # for another system, or of an extra that is not installed
            seen.discard(package)
    asking = {package for package in seen if reported(package) & MORE_THAN_A_NOTICE}
    assert {"mosaik", "tqdm"} <= asking
    assert {package for package in asking if f"`{package}`" not in PAGE} == set()


def test_debian_packages_of_images_are_named():
    files = [path.read_text("utf-8").replace("\\\n", " ") for path in (ROOT / "containers").glob("*/Dockerfile")]
    lines = [line for text in files for line in re.findall(r"apt-get install ([^&\n]*)", text)]
    packages = {word for line in lines for word in line.split() if not word.startswith("-")}
    assert "iproute2" in packages
    assert {package for package in packages if f"`{package}`" not in PAGE} == set()


def test_what_is_cited_is_this_package():
    cited = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert {key: cited[key] for key in ("title", "version", "abstract", "keywords")} == {
        "title": PROJECT["name"], "version": PROJECT["version"], "abstract": PROJECT["description"],
        "keywords": PROJECT["keywords"],
    }  # fmt: skip
