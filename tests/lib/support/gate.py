"""The tests of ``make test``, the gate of every change; ``make test-all`` runs all the others, too.

Tests below ``tests/e2e`` start processes, browsers and jobs, so the gate takes only one journey for each
page and each kind of process. Everywhere else it leaves out the tests that are marked ``slow``.
"""

from collections.abc import Iterable

FOLDER = "tests/e2e/"
JOURNEYS = frozenset(
    f"{FOLDER}test_{name}"
    for name in (
        # the page
        "page_shell.py::test_the_overview_of_one_run_holds_what_is_recorded",
        "page_shell.py::test_the_overview_of_many_runs_is_ordered_by_any_column",
        "page_shell.py::test_everything_is_reached_by_the_keyboard",
        "page_findings.py::test_a_finding_leads_to_its_series_at_its_steps",
        "page_board.py::test_the_table_says_which_run_is_sick_and_of_what",
        "page_scalars.py::test_zoom_asks_the_server_for_more_points",
        "page_records.py::test_the_tensor_that_widened_comes_first_and_is_looked_at",
        "page_records.py::test_pictures_are_those_of_the_step_and_sounds_can_be_played",
        "page_records.py::test_only_the_config_that_differs_is_listed",
        "page_graph.py::test_blocks_alike_are_one_box_until_each_is_asked_for",
        "page_compare.py::test_two_runs_are_compared_at_the_cursor_that_all_charts_share",
        "page_ranks.py::test_the_slow_rank_is_named_with_the_step",
        "page_profile.py::test_a_newcomer_finds_the_line_that_makes_it_input_bound_in_four_clicks",
        "page_profile.py::test_operations_show_tfprofs_views_with_its_options",
        "page_annotations.py::test_a_run_gets_a_name_tags_and_a_note",
        "page_hostile.py::test_names_are_text",
        # commands and the server
        "demo_command.py::test_demo_trains_serves_and_stops_on_interrupt",
        "serve_command.py::test_one_line_of_json_then_answers",
        "serve_live.py::test_runs_come_and_go_while_watched",
        "serve_attacks.py::test_a_page_of_another_origin_is_refused",
        "serve_attacks.py::test_no_file_beside_the_page_is_served",
        "serve_share.py::test_a_link_looks_and_changes_nothing",
        "profile_command.py::test_prints_what_tfprof_writes",
        # processes that record, and how they end
        "record_exits.py::test_after_kill_9_all_that_was_flushed_is_there",
        "record_exits.py::test_a_signal_writes_everything_and_ends_as_it_would_have",
        "record_tensorboard.py::test_every_value_is_read",
        "hooks.py::test_a_loss_that_is_nan_ends_the_process_with_an_error",
        # jobs of several processes
        "ranks_torch.py::test_the_chief_alone_writes_events_and_each_rank_its_own_file",
        "ranks_torch.py::test_a_killed_rank_blocks_nobody_and_the_restart_is_a_second_attempt",
        "ranks_jax.py::test_one_chief_and_a_file_per_rank",
    )
)


FILES = frozenset(nodeid.split("::")[0] for nodeid in JOURNEYS)
"""Files of journeys."""


def may_hold(file: str, text: str, *, gate: bool) -> bool:
    """Return whether a file may hold tests of the gate, or beyond it; to import all others takes a minute.

    Args:
        file: Its path, as node ids begin.
        text: What it contains.
        gate: Whether the tests of the gate are meant.
    """
    if file.startswith(FOLDER):
        return not gate or file in FILES
    return gate or "mark.slow" in text


def in_gate(nodeid: str, markers: Iterable[str]) -> bool:
    """Return whether the gate runs a test, given its node id and the names of its markers."""
    if nodeid.startswith(FOLDER):
        return nodeid.split("[")[0] in JOURNEYS
    return "slow" not in set(markers)
