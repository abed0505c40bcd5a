"""Texts that Hugging Face's tokenizers makes of tokens, with the decoders of published tokenizers.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tests/golden/make_decoder_golden.py

(made with tokenizers 0.23). Writes tests/golden/decoders.json: for each tokenizer of tests/golden/tokenizers that is named
below its `decoder`, what `decode` makes of tokens (of the texts of its *.tokens.json, and drawn ones, which hold halves of
characters). tests/exec/detokenizer_test.cpp compares.
"""

import json
import pathlib
import random

import tokenizers

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
LLAMA_2 = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
WORD_PIECE = {"type": "WordPiece", "prefix": "##", "cleanup": True}
DECODERS = {"gpt2": BYTE_LEVEL, "llama3": BYTE_LEVEL, "llama2": LLAMA_2, "metaspace": METASPACE, "unigram": METASPACE,
            "unigram_bytes": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, METASPACE]},
            "wordpiece": WORD_PIECE, "uncased": WORD_PIECE | {"cleanup": False}, "words": None}


def main():
    here = pathlib.Path(__file__).resolve().parent
    draw = random.Random(8000)
    all_cases = {}
    for name, decoder in DECODERS.items():
        file = json.loads((here / f"tokenizers/{name}.json").read_text())
        file["decoder"] = decoder
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(file))
        texts = json.loads((here / f"tokenizers/{name}.tokens.json").read_text())
        lists = [case["tokens"] for case in texts[:14]]
        size = tokenizer.get_vocab_size()
        lists += [[draw.randrange(size) for _ in range(12)] for _ in range(6)]
        if name in ("gpt2", "llama3"):  # bytes that are no UTF-8, and ends of characters
            lists += [[tokenizer.token_to_id(c) for c in word] for word in ("ð", "ðŁĻ", "ðŁĻa", "âĤĤ", "íłĢ", "Ãa©", "Ġð")]
        all_cases[name] = {"decoder": decoder, "cases": [{"tokens": [t for t in one if t is not None],
                                                          "text": tokenizer.decode([t for t in one if t is not None])}
                                                         for one in lists]}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in all_cases.items())
    (here / "decoders.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
