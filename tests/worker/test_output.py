"""What an attempt prints: its times, what the report keeps of it, and the parts that can be seen while it runs."""

from __future__ import annotations

import time

from holdfast.masking import keep_task_secret
from holdfast.worker.output import BEGINNING, CUT, END, MOST_TIMES, PART_LIMIT, STREAM_LIMIT, Output


def printed(*texts: str, began: float | None = None) -> Output:
    output = Output(time.monotonic() if began is None else began)
    for text in texts:
        output.write(text)
    return output


def test_each_line_has_the_time_at_which_it_was_begun() -> None:
    now = time.monotonic()
    output = Output(now - 5)
    output.write("one\ntwo ")
    output._began -= 5
    output.write("still two\nthree\n")
    output._began -= 5
    output.write("\n")
    text, times = output.log()
    assert text == "one\ntwo still two\nthree\n\n"
    assert [line for line, _ in times] == [0, 2, 3]
    assert [round(at / 1000) for _, at in times] == [5, 10, 15]


def test_lines_of_one_moment_share_one_time() -> None:
    _, times = printed("one\ntwo\n", began=time.monotonic() - 5).log()
    assert [line for line, _ in times] == [0]


def test_the_number_of_times_is_limited() -> None:
    output = Output(time.monotonic())
    for _ in range(2 * MOST_TIMES + 1):
        output._began -= 1
        output.write("x\n")
    _, times = output.log()
    assert MOST_TIMES / 2 < len(times) <= MOST_TIMES
    assert times[0][0] == 0


def test_the_report_has_the_beginning_and_the_end_of_a_long_output() -> None:
    text, _ = printed("first\n", *(f"{n:0>99}\n" for n in range(10_000)), "last\n").log()
    assert text.startswith("first\n")
    assert text.endswith("9999\nlast\n")
    assert "characters were cut off here …\n" in text
    assert BEGINNING + END <= len(text) < BEGINNING + END + 200


def test_large_pieces_do_not_make_the_end_longer() -> None:
    pieces = [character * (END - 1) for character in "abcd"]
    text, _ = printed(*pieces).log()
    head, _, tail = text.partition(" characters were cut off here …\n")
    whole = "".join(pieces)
    assert tail == whole[-END:] and head.startswith(whole[:BEGINNING])
    assert head.endswith(f"… {len(whole) - BEGINNING - END:,}")


def test_nothing_is_cut_from_an_output_that_fits() -> None:
    whole = "x" * (BEGINNING + END)
    assert printed(whole).log()[0] == whole
    assert printed(*whole).log()[0] == whole


def test_one_long_text_is_cut_too() -> None:
    text, _ = printed("a" * BEGINNING + "b" * 1_000_000 + "c" * END).log()
    assert text == "a" * BEGINNING + "\n… 1,000,000 characters were cut off here …\n" + "c" * END


def test_a_part_has_whole_lines() -> None:
    output = printed("one\ntw")
    part = output.next_part()
    assert part is not None and part.text == "one\n"
    assert output.next_part() is None
    output.write("o\n")
    part = output.next_part()
    assert part is not None and part.text == "two\n"
    assert [line for line, _ in part.times] == [0]
    assert not output.is_unsent


def test_a_line_without_an_end_is_sent_when_it_is_long() -> None:
    part = printed("x" * PART_LIMIT).next_part()
    assert part is not None and len(part.text) == PART_LIMIT


def test_a_stream_is_cut_and_says_so() -> None:
    output = printed(*["x" * 999 + "\n"] * 2000)
    part = output.next_part()
    assert part is not None and part.text.endswith(CUT)
    assert STREAM_LIMIT <= len(part.text) <= STREAM_LIMIT + 100
    output.write("more\n")
    assert output.next_part() is None


def test_where_the_output_is_cut_no_part_of_a_secret_stays() -> None:
    secret = "q1w2e3r4t5-" * 3
    keep_task_secret(secret)
    output = Output(0.0)
    output.write("a" * (BEGINNING - 20))
    for piece in (secret[:15], secret[15:], "b" * END, "c" * END):
        output.write(piece)
    beginning, _, end = output.log()[0].partition("…")
    assert "q1w2" not in beginning + end and "a\n" in beginning
    output = Output(0.0)
    output.write("a" * BEGINNING)
    output.write("b" * 100 + secret)
    output.write("c" * (END - 20))
    assert "t5-" not in output.log()[0]
    output = Output(0.0)
    output.write("a" * (STREAM_LIMIT - 20) + "\n")
    output.write(secret[:10])
    output.write(secret[10:])
    part = output.next_part()
    assert part is not None and "q1w2" not in part.text and "cut off" in part.text
