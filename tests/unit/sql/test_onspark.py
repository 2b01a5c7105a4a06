from __future__ import annotations

import pytest

from ottla.sql.onspark import is_plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("select count(*) from clicks where _offset < 5", True),
        ("select * from clicks c join users u on c.user = u.id", True),
        ("select * from clicks a join clicks b using (user)", False),
        ("select * from clicks where user in (select id from users)", False),
        ("with c as (select * from clicks) select * from c", False),
        ("from clicks select user", True),
        ("from clicks, (from clicks) as other", False),
    ],
)
def test_conditions_are_pushed_down_only_where_nothing_is_read_twice(text: str, plain: bool) -> None:
    assert is_plain(text, ["clicks", "users"] if "users" in text else ["clicks"]) is plain
