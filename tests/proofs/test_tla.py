"""TLC on the models, where there is Java: one mistake of every model, and one configuration that passes.

Of `Decisions` only a mistake: what passes there takes longer than these may. Of `Closing` a probe, too.
All configurations run in `make proofs`, and here with CRDTCAT_SLOW=full. CI runs `make proofs` beside the
tests, says so with CRDTCAT_PROOFS=beside, and has none of them run twice.
"""

from __future__ import annotations

import shutil

import pytest

from proofs import tla_configurations, tla_runner, tlc, tools
from proofs.report import Report
from tests.bounds import FULL, LEFT_TO_PROOFS

JAVA = shutil.which("java")
QUICK = (
    "Claims_pointer_before_manifest_bug",
    "Claims_lost_answers",
    "Closing_one_time_twice",
    "Closing_lists_before_it_reads_bug",
    "Closing_passed_by_probe",
    "Decisions_before_all_claims_bug",
    "Horizon_two_expirers",
    "Horizon_reads_horizon_only_bug",
    "Log_two_bundlers",
    "Log_bundles_first_bug",
    "Marks_two_tables",
    "Marks_mark_after_bug",
    "Reuse_condemned_first",
    "Reuse_deletes_at_once_bug",
    "Segments_unique_names",
    "Segments_content_addressed_bug",
    "Switching_two_writers",
    "Switching_does_not_wait_bug",
    "Transactions_two_tables",
    "Transactions_keeps_what_others_lack_bug",
)
CHOSEN = [one for one in tla_configurations.configurations() if FULL or one.name in QUICK]


def test_every_model_is_looked_at() -> None:
    assert {one.module for one in CHOSEN} == {path.stem for path in tlc.TLA.glob("*.tla")}
    assert FULL or len(CHOSEN) == len(QUICK)


def test_every_model_has_a_quick_mistake_and_all_but_one_what_passes() -> None:
    modules = {path.stem for path in tlc.TLA.glob("*.tla")}
    assert {name.split("_")[0] for name in QUICK if name.endswith("_bug")} == modules
    passing = {name.split("_")[0] for name in QUICK if not name.endswith(("_bug", "_probe"))}
    assert modules - passing == {"Decisions"}


def test_whatever_is_left_out_leaves_one_of_its_model_that_passes() -> None:
    everything = {one.name: one for one in tla_configurations.configurations()}
    left = [one for name, one in everything.items() if name not in tla_runner.LARGE and not one.must_fail]
    assert {everything[name].module for name in tla_runner.LARGE} <= {one.module for one in left}
    assert not any(everything[name].must_fail for name in tla_runner.LARGE)
    assert not set(QUICK) & set(tla_runner.LARGE)


@LEFT_TO_PROOFS
@pytest.mark.skipif(JAVA is None, reason="no Java: install one for TLC")
@pytest.mark.skipif(not tools.TLA_JAR.exists(), reason="no tla2tools.jar: `make setup` fetches it")
@pytest.mark.parametrize("configuration", CHOSEN, ids=lambda one: one.name)
def test_a_model_does_what_its_name_promises(configuration: tla_configurations.Configuration) -> None:
    assert JAVA is not None
    report = Report()
    tla_runner.check(configuration, report)
    assert (report.passed, report.gaps) == (1, [])
