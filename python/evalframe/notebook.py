"""What the tools' objects show in notebooks."""

from collections.abc import Iterable


def table(columns: Iterable[str], rows: Iterable[Iterable[str]], *, left: bool = False) -> str:
    """An HTML table of texts; without columns it has no head. `left`: on whose left side the texts stand."""
    from html import escape  # its table of entities takes a tenth of what importing evalframe does

    cell = '<td style="text-align:left">' if left else "<td>"
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"{cell}{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def titled(title: str, content: str) -> str:
    from html import escape

    return f"<p>{escape(title)}</p>{content}"
