"""What the demo prints: headings, statements and tables; no colour codes where the output is not a terminal."""

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Row
from rich.console import Console
from rich.table import Table

from tidemill.calibrate.measure import Measured

WIDTH = 118  # where the output is not a terminal, rich would take 80 columns and break the tables


def console() -> Console:
    """A console on stdout that is wide enough for the tables."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=WIDTH)


def heading(out: Console, text: str, detail: str = "") -> None:
    out.print()
    out.rule(f"[bold]{text}[/]", align="left", style="blue")
    if detail:
        out.print(detail, style="dim", markup=False)


def statement(out: Console, text: str) -> None:
    """A statement as a person would type it, cut at the console's width."""
    out.print("> " + " ".join(text.split()), style="cyan", markup=False, no_wrap=True, overflow="ellipsis")


def rows(out: Console, columns: Sequence[str], content: Iterable[Sequence[object]]) -> None:
    """A small result."""
    table = Table(*columns, box=None, pad_edge=False)
    for row in content:
        table.add_row(*map(str, row))
    out.print(table)


def refreshes(
    out: Console, runs: Mapping[str, Row], verified: Mapping[str, Row], recomputed: Mapping[str, Measured]
) -> None:
    """One line per view: what its refresh did, against recomputing its query, and whether VERIFY agrees."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("view")
    table.add_column("kind")
    table.add_column("methods")
    for name in ("rows in", "rows out", "jobs", "CPU ms", "recompute", "ratio", "wall s", "recompute"):
        table.add_column(name, justify="right")
    table.add_column("verified")
    for view, run in runs.items():
        again = recomputed.get(view)
        matches = verified[view].matches
        table.add_row(
            view,
            run.kind if run.reason is None else f"{run.kind} ({run.reason})",
            " ".join(run.methods or ()) or "-",
            signed(run.rows_in),
            signed(run.rows_out),
            str(run.jobs),
            f"{run.cpu_ms:,}",
            f"{again.cpu_ms:,.0f}" if again else "-",
            f"{run.cpu_ms / again.cpu_ms:.2f}" if again and again.cpu_ms else "-",
            f"{run.duration_ms / 1000:.1f}",
            f"{again.wall_ms / 1000:.1f}" if again else "-",
            "[green]yes[/]" if matches else "[bold red]NO[/]",
        )
    out.print(table)


def signed(change: Row | None) -> str:
    """Inserts and deletes as `+120 -40`."""
    if change is None or change.inserts is None:
        return "-"
    return f"+{change.inserts:,} -{change.deletes:,}"
