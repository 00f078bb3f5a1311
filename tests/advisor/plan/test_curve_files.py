"""Files of a demand curve as programs write them, and what no program should."""

import pytest

from advisor.plan.curve import read_curve
from profiler.errors import InputError

RATES = [1.5 + hour for hour in range(24)]


def written(separator=",", end="\n", decimal=".", begin=""):
    """The same day in some notation."""
    rows = [f"{hour}{separator}{str(rate).replace('.', decimal)}" for hour, rate in enumerate(RATES)]
    return begin + end.join([f"hour{separator}chat", *rows]) + end


@pytest.mark.parametrize(
    "text",
    [
        written(),
        written(begin="\ufeff", end="\r\n"),
        written(end="\r"),
        written(end="\n\n"),
        written(separator=";"),
        written(separator=";", decimal=",", begin="\ufeff", end="\r\n"),
        written(separator="\t", decimal=","),
    ],
)
def test_every_programs_notation_is_the_same_curve(text):
    """Byte order marks, line ends, semicolons with decimal commas, tabs."""
    assert read_curve(text, ["chat"]).rates[:, 0].tolist() == RATES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (written().replace("\n1,2.5", "\n1,2_5"), "line 3; expected requests per second, 0 or more; got '2_5'"),
        (written().replace("\n1,2.5", "\n1,\u0663"), "line 3; expected requests per second, 0 or more; got '\u0663'"),
        (written().replace("\n1,2.5", "\n1,1e9"), "line 3; expected at most 1,000,000 requests per second; got '1e9'"),
        (written(";").replace("\n1;2.5", "\n1;1.000,5"), "line 3; expected requests per second, 0 or more"),
        ("hour,chat\n" + "".join(f"{h + 1},1\n" for h in range(24)), "27, 28, 29 and more; hours count from 0"),
        ("hour,chat\n" + "".join(f"{h},1\n" for h in range(8760)), "got '744'; plan a typical day, a week, or the"),
        ("hour,chat," + "x" * 5000 + "\n0,1,2\n", f"got the unknown column '{'x' * 40}'; name"),
        ("hour," + ",".join(f"c{i}" for i in range(100_000)) + "\n", "got the unknown column 'c0'"),
        ('hour,chat\n0,"' + "1" * 200_000, "is no CSV; expected rows of cells between commas; got field larger"),
    ],
)  # fmt: skip
def test_what_is_no_curve_is_one_short_line(text, message):
    """However long or wide the file: 100,000 columns once took minutes to refuse."""
    with pytest.raises(InputError) as caught:
        read_curve(text, ["chat"])
    assert message in caught.value.line()
    assert len(caught.value.line()) < 300
