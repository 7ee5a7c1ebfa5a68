"""What becomes of calls in which Ctrl-C is pressed."""

from __future__ import annotations

from unittest import mock

from tidemill.driver import interrupts


def test_a_call_outlasts_the_ctrl_c_that_ends_it() -> None:
    """A shell that hears it once its statement has ended takes it for its own end."""
    calls = interrupts.Interrupts()
    calls.grace = 0.5
    with mock.patch("time.sleep") as sleep:
        with calls.during(lambda: None) as pressed:
            assert not pressed()
        sleep.assert_not_called()
        with calls.during(lambda: None) as pressed:
            calls.press()
            assert pressed()
            sleep.assert_not_called()
        sleep.assert_called_once_with(0.5)
        with calls.during(lambda: None) as pressed:
            assert not pressed()
        sleep.assert_called_once()
