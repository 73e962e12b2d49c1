"""Packs made by hand, measured."""

from dataclasses import dataclass
from pathlib import Path

from rewrite import resources
from rewrite.audit.coverage.report import Measured, PackCoverage
from rewrite.audit.coverage.run import Job, gathered, loaded, measure

MANIFEST = "name: {name}\ndoc: A pack for tests.\nopset: [{low}, {high}]\nexample_opset: 18\n"


@dataclass(frozen=True)
class Lab:
    job: Job
    measured: tuple[Measured, ...]
    coverage: PackCoverage

    def shown(self, part: str) -> set[str]:
        return set(self.part(part).shown)

    def missing(self, part: str) -> set[str]:
        return {item.key for item in self.part(part).missing}

    def part(self, name: str):
        return next(part for part in self.coverage.parts if part.name == name)


def pack(folder: Path, rules: str, opset=(18, 18), name="lab", extends="", cases="") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = MANIFEST.format(name=name, low=opset[0], high=opset[1]) + extends
    (folder / "pack.yaml").write_text(manifest, encoding="utf-8")
    (folder / "lab.rules").write_text(rules, encoding="utf-8")
    if cases:
        (folder / "lab.cases.yaml").write_text(cases, encoding="utf-8")
    return folder


def lab(folder: Path, rules: str, targets=("generic",), only=(), processes=1, **more) -> Lab:
    place = pack(folder, rules, **more)
    job = Job(place, (resources.folder("rules"), place.parent), tuple(targets))
    loaded.cache_clear()
    measured = measure([job], only, processes)
    (coverage,) = gathered(measured)
    return Lab(job, measured[job], coverage)


NOTHING = "g (float[2] x) => (float[2] y) { y = Sin(x) }"  # like no rule here


def rule(name: str, body: str, examples: str, head: str = "in clean") -> str:
    """A rule whose examples are these and one that shows nothing."""
    examples += rejects("nothing", NOTHING)
    return (
        f'rule {name} {head} {{\n  """A rule for tests."""\n{body}\n  claim exact\n{examples}}}\n'
    )


def fires(name: str, text: str) -> str:
    return f'  example fires {name} """{text}"""\n'


def rejects(name: str, text: str) -> str:
    return f'  example rejects {name} """{text}"""\n'
