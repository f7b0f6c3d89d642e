"""The addresses of the interface: the query of each, and the type of its answer.

The server's own description is made from this table, the routes and the message types (``serve/openapi.py``);
a test sends requests made from it to a server and checks the answers against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from stepscope.serve import access_types as access
from stepscope.serve import annotation_types as said
from stepscope.serve import finding_types as findings
from stepscope.serve import rank_types as ranks
from stepscope.serve import types as messages
from stepscope.serve.profiles import job_types as jobs
from stepscope.serve.profiles import types as profiles
from stepscope.serve.profiles import work_types as work
from stepscope.serve.records import types as records
from stepscope.serve.records import view_types as views
from stepscope.serve.records.ask import SHOWN_MIMES

JSON, FRAME = "application/json", "application/octet-stream"
Whole = Annotated[int, Meta(ge=-(1 << 63) + 1, le=(1 << 63) - 1)]
Numbers = Annotated[str, Meta(pattern=r"^-?[0-9]+(,-?[0-9]+)*$")]
RankFactName = Annotated[str, Meta(pattern=f"^({'|'.join(get_args(ranks.RankFact))}|stage/.*)$")]


@dataclass(frozen=True)
class Parameter:
    """One name in the query of an address.

    Attributes:
        name: Its name in the query.
        kind: Its type; a list if it may be repeated.
        about: What it says, a line.
        required: Whether the address refuses without it.
    """

    name: str
    kind: Any
    about: str
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """The query of an address, and its successful answer.

    Attributes:
        query: Names that may stand in the query.
        answer: Type of the message: of the whole answer, or of the header of a frame; several where the
            question decides.
        body: Type of what is sent.
        media: Types that the answer may have.
        options: Whether further names in the query are options, each a text.
    """

    query: tuple[Parameter, ...] = ()
    answer: Any = None
    body: type | None = None
    media: tuple[str, ...] = (JSON,)
    options: bool = False


def _frame(header: type, *query: Parameter) -> Operation:
    return Operation(query, header, media=(FRAME,))


def _json(answer: type, *query: Parameter) -> Operation:
    return Operation(query, answer)


def _post(body: type, answer: type) -> Operation:
    return Operation(body=body, answer=answer)


def _whole(name: str, about: str, *, least: int = 0, most: int | None = None) -> Parameter:
    return Parameter(name, Annotated[int, Meta(ge=least, le=most)], about)


RUN = Parameter("run", str, "name of a run", required=True)
TAG = Parameter("tag", str, "tag of the run", required=True)
STEP = _whole("step", "the newest that is not after it; default: the newest", most=1 << 62)
PATH = Parameter("path", str, "a profile, relative to the log directory", required=True)
STEPS = Parameter("steps", str, "the steps to count, such as 3-5,9; default: all")
START = Parameter("start", Whole, "first nanosecond of the window; default: that of the profile")
END = Parameter("end", Whole, "last nanosecond of the window; default: that of the profile")
PIXELS = _whole("pixels", "width of the picture; default: 1000", least=1, most=16_384)
LANES = Parameter("lanes", Numbers, "numbers of lanes, separated by commas; default: all")
COLUMNS = _whole("columns", "columns over the steps", least=1, most=ranks.MAX_RANK_COLUMNS)
ATTEMPT = Parameter("attempt", Whole, "default: the newest")
RANGE = (
    Parameter("begin", Whole, "first step; default: the first recorded one"),
    Parameter("end", Whole, "the step after the last; default: all recorded ones"),
)
EMBEDDING = Parameter("name", str, "name of an embedding; default: the first")

OPERATIONS: dict[str, Operation] = {
    "changes": _json(
        messages.Changes, Parameter("cursor", str, "cursor of the last answer; default: everything")
    ),
    "series": Operation(answer=messages.SeriesHeader, body=messages.SeriesRequest, media=(FRAME,)),
    "points": Operation(
        (
            Parameter(
                "run", list[str], "names of runs, each with the tag at the same position", required=True
            ),
            Parameter("tag", list[str], "as many tags; a leading = makes one an expression", required=True),
            Parameter("format", Literal["csv", "json"], "default: json"),
            Parameter("x_tag", str, "a tag whose value at each point is an additional column"),
        ),
        messages.PointsAnswer,
        media=(JSON, "text/csv"),
    ),
    "expression": _json(messages.ExpressionAnswer, Parameter("text", str, "an expression over tags")),
    "findings": _json(findings.RunFindings, RUN),
    "captures": _json(
        messages.CaptureList,
        RUN,
        Parameter("request", Annotated[str, Meta(pattern="^[0-9a-f]{8,32}$")], "as answered by capture"),
    ),
    "capture": _post(messages.CaptureRequest, messages.CaptureAsked),
    "report": Operation((RUN,), media=("text/html",)),
    "health": Operation(answer=messages.Health),
    "openapi.json": Operation(answer=dict[str, Any]),
    "ranks": Operation(
        (Parameter("run", str, "name of a run; default: list the runs that have ranks"),),
        (ranks.RankList, ranks.RankedRuns),
    ),
    "ranks/steps": _frame(
        ranks.RankSteps,
        RUN,
        Parameter("fact", RankFactName, "the quantity; default: step_time_s"),
        COLUMNS,
        ATTEMPT,
        *RANGE,
    ),
    "ranks/frontier": _json(ranks.RankFrontier, RUN, COLUMNS, ATTEMPT, *RANGE),
    "records": _json(records.RecordTags, RUN),
    "record": _json(
        records.RecordAnswer,
        RUN,
        TAG,
        _whole("limit", "largest number of values; default: 100", least=1, most=records.MAX_RECORDS),
    ),
    "blob": Operation(
        (
            RUN,
            TAG,
            Parameter("writer", str, "default: any"),
            _whole("attempt", "default: any", most=1 << 31),
            _whole("at", "number of the value; default: the newest"),
            _whole("index", "which of the value's blobs; default: the first"),
        ),
        media=(*sorted(SHOWN_MIMES), FRAME, "application/x-float32", "application/x-protobuf"),
    ),
    "graph": _json(records.GraphAnswer, RUN, Parameter("tag", str, "tag of the costs; default: the newest")),
    "gradient_norms": _json(views.GradientNorms, RUN, STEP),
    "curve": _json(views.CurveAnswer, RUN, TAG, STEP),
    "embeddings": _json(views.EmbeddingList, RUN),
    "embedding": _frame(
        views.EmbeddingHeader,
        RUN,
        EMBEDDING,
        Parameter("method", views.Reduction, "default: pca"),
        _whole("axes", "default: 3", least=2, most=3),
    ),
    "neighbours": _json(
        views.NeighbourList,
        RUN,
        EMBEDDING,
        _whole("point", "number of a point; default: the first"),
        Parameter("metric", views.Metric, "default: cosine"),
        _whole("count", "default: 20", least=1, most=200),
    ),
    "sprite": Operation((RUN, EMBEDDING), media=(*sorted(SHOWN_MIMES), FRAME)),
    "profiles": _json(profiles.ProfileList),
    "profile": _json(profiles.ProfileSummary, PATH),
    "outline": _json(profiles.ProfileOutline, PATH),
    "timeline": _frame(profiles.TimelineHeader, PATH, START, END, PIXELS, LANES),
    "tracks": _frame(
        profiles.TracksHeader,
        PATH,
        START,
        END,
        PIXELS,
        Parameter("tracks", Numbers, "numbers of tracks; default: all"),
    ),
    "event": _json(profiles.ProfileEvent, PATH, Parameter("row", Whole, "number of an event", required=True)),
    "search": _json(
        profiles.SearchAnswer,
        PATH,
        Parameter("q", str, "text that the name contains, ignoring case"),
        _whole("limit", "largest number of events"),
        _whole("skip", "number of events to skip"),
        Parameter("start", Whole, "the nanosecond to begin at"),
    ),
    "range": _json(
        profiles.RangeAnswer,
        PATH,
        Parameter("start", Whole, "first nanosecond", required=True),
        Parameter("end", Whole, "last nanosecond", required=True),
        LANES,
    ),
    "view": Operation(
        (PATH, Parameter("view", Literal["scope", "graph", "op", "code"], "default: scope"), STEPS),
        profiles.TreeAnswer,
        options=True,
    ),
    "profile/diff": _json(
        profiles.DiffAnswer,
        Parameter("a", str, "a profile", required=True),
        Parameter("b", str, "another", required=True),
        Parameter("steps_a", str, "steps of a to count; default: all"),
        Parameter("steps_b", str, "steps of b to count; default: all"),
    ),
    "profile/history": _json(
        profiles.HistoryAnswer,
        Parameter("path", list[str], "profiles, 1 to 24", required=True),
        Parameter(
            "by",
            Literal["parts", "scopes", "launched", "operators", "kernels"],
            "kind of rows; default: operators",
        ),
    ),
    "profile/kernels": _json(profiles.KernelAnswer, PATH, STEPS),
    "profile/memory": _json(
        profiles.MemoryAnswer,
        PATH,
        STEPS,
        Parameter("points", Whole, "number of points of the level; default: 800"),
    ),
    "profile/shapes": _json(work.ShapesAnswer, PATH, STEPS),
    "profile/path": _json(
        work.PathAnswer,
        PATH,
        STEPS,
        _whole("pieces", "largest number of segments; default: 2000", most=100_000),
    ),
    "profile/overlap": _json(work.OverlapAnswer, PATH, STEPS),
    "profile/ranks": _json(jobs.JobAnswer, PATH),
    "profile/waits": _json(
        jobs.WaitsAnswer,
        PATH,
        START,
        END,
        _whole("most", "largest number of waits, longest first; default: 300", most=5_000),
    ),
    "profile/gaps": _json(
        jobs.GapsAnswer,
        PATH,
        START,
        END,
        _whole("most", "largest number of gaps, longest first; default: 100", most=5_000),
    ),
    "profile/reading": _json(profiles.ReadingProgress, PATH),
    "profile/events": Operation((PATH, START, END, LANES), media=("text/csv",)),
    "chrome": Operation((PATH,), media=("application/gzip",)),
    "perfetto": Operation(answer=messages.PerfettoPage),
    "views": Operation(answer=said.ViewList),
    "trash": Operation(answer=said.TrashList),
    "run": _post(said.RunChange, said.RunChange),
    "run/step": _post(said.StepSaid, said.StepSaid),
    "run/delete": _post(said.RunDelete, said.TrashList),
    "trash/restore": _post(said.TrashRequest, said.TrashList),
    "trash/empty": _post(said.TrashRequest, said.TrashList),
    "views/save": _post(said.ViewSave, said.ViewList),
    "views/forget": _post(said.ViewDelete, said.ViewList),
    "metric": _post(said.MetricSaid, said.MetricSaid),
    "access": Operation(answer=access.AccessFacts),
    "share": _post(access.ShareRequest, access.ShareLink),
}
"""By address below ``api/v1/``."""
