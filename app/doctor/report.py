"""Findings of the doctor as text and as JSON."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from app.catalog.words import plain
from app.doctor.findings import Finding, Mark
from app.doctor.private import Private
from app.shell.columns import columns, wrapped
from models.system.counted import counted

_MARK = max(map(len, Mark)) + 2


def lines(findings: Sequence[Finding], private: Private) -> list[str]:
    """Return the report: one line per finding, by section, and the counts at the end."""
    lines: list[str] = []
    for section, each in groupby(findings, lambda finding: finding.section):
        lines += [section.capitalize(), *(line for one in _block(list(each), private) for line in one), ""]
    return [*lines, _count(findings)]


def record(findings: Sequence[Finding], private: Private, code: int) -> dict[str, Any]:
    """Return the object for a bug report, without private data."""
    return {"type": "doctor", "exit_code": code, "findings": [_record(finding, private) for finding in findings]}


def _block(findings: Sequence[Finding], private: Private) -> list[list[str]]:
    width = max(columns(finding.name) for finding in findings) + 2
    return [_lines(finding, width, private) for finding in findings]


def _lines(finding: Finding, width: int, private: Private) -> list[str]:
    indent = 2 + _MARK + width
    head = f"  {finding.mark:<{_MARK}}{finding.name:<{width}}"
    fact = wrapped(private.at_home(plain(finding.fact)), indent)
    remedy = wrapped(private.at_home(plain(f"-> {finding.remedy}")), indent, 3) if finding.remedy else []
    return [head + fact[0].lstrip(), *fact[1:], *remedy]


def _count(findings: Sequence[Finding]) -> str:
    counts = {mark: sum(finding.mark is mark for finding in findings) for mark in (Mark.PROBLEM, Mark.NOTE)}
    counts_words = [counted(count, mark) for mark, count in counts.items() if count]
    return f"{' and '.join(counts_words)}." if counts_words else "No problems found."


def _record(finding: Finding, private: Private) -> dict[str, Any]:
    fact = private.removed(finding.public or finding.fact)
    remedy = "" if finding.public else private.removed(finding.remedy)
    about = {"section": finding.section, "name": finding.name, "mark": str(finding.mark), "fact": fact}
    return {**about, **({"remedy": remedy} if remedy else {}), "values": dict(finding.values)}
