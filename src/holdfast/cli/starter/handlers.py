"""The functions that the workflow's tasks run. What they return is what later nodes see as their output."""

from holdfast import Permanent, handler


@handler("prepare")
def prepare(texts: list[str]) -> dict[str, list[str]]:
    if not texts:
        raise Permanent("there are no texts to count")
    return {"texts": [text.strip() for text in texts]}


@handler("count_words")
def count_words(text: str) -> int:
    return len(text.split())


@handler("report")
def report(words: int, texts: int) -> dict[str, str]:
    return {"message": f"{words} words in {texts} texts"}
