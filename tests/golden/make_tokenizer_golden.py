"""Golden tokens of small tokenizers from an independent implementation: Hugging Face tokenizers.

    python3 -m venv venv && venv/bin/pip install tokenizers sentencepiece protobuf
    venv/bin/python tests/golden/make_tokenizer_golden.py [folder]

(made with tokenizers 0.23 and sentencepiece 0.2). Trains byte-pair, unigram and WordPiece tokenizers on a few lines and writes
tests/golden/tokenizers/<name>.json (Hugging Face's file) and <name>.tokens.json: a list of
{"text", "tokens"}. The text is written in pieces of words and signs that are awkward to cut.
"""

import json
import pathlib
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers
from tokenizers import pre_tokenizers, trainers

TRAINING = [
    "In the beginning God created the heaven and the earth. And the earth was without form, and void;",
    "and darkness was upon the face of the deep. And the Spirit of God moved upon the face of the waters.",
    "And God said, Let there be light: and there was light. I'm sure they're here, we've 1234 reasons.",
    "naïve café, 東京 and Привет мир; 3.14159 and 2,718; \t tabs\n\nand lines\r\n  indented   words",
] * 4

TEXTS = [
    "", " ", "\n", "   ", "a", " a", "And God said, Let there be light", "  two  blanks  ",
    "line\nline\n\nline \n line\t\ttab ", "I'm they're we've you'll he'd it's DON'T 's 'S",
    "123 4567 89,012.345 x2y3", "東京 Привет naïve café 🙂🙃 e\u0301", "...!!?? --- (a)[b]{c}",
    "<|end|>", "before<|end|>after <|end|> <|end|>", "<|end", "\u00a0nbsp\u2003em\u3000wide",
    "word\r\nword\r\n\r\n", "underscored_name camelCase HTTPServer2", "½ ² Ⅷ ٣", "\u200b\ufeff", "▁x ▁ y",
    "the" * 30, "\x00\x01\x7f", "ＡＢＣ ①②③ ½", "light\u3000of the\u200bdeep e\u0301e\u0302", "東京タワー東",
]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
END = AddedToken("<|end|>", special=True, normalized=False)


def byte_level(vocabulary):
    return trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False,
                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(TRAINING, byte_level(420))
    tokenizer.add_special_tokens([END])
    return tokenizer


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(TRAINING, byte_level(400))
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False,
                                             lstrip=True, rstrip=True)])
    return tokenizer


def sentencepiece(metaspace):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    else:
        tokenizer.normalizer = normalizers.Sequence([
            normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.train_from_iterator(
        [line for text in TRAINING for line in text.split("\n")],
        trainers.BpeTrainer(vocab_size=460, special_tokens=tokens, show_progress=False))
    tokenizer.add_special_tokens([END])
    return tokenizer


def digits():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True)])
    tokenizer.train_from_iterator(TRAINING, byte_level(380))
    return tokenizer


# A character map with a few of SentencePiece's rules: wide letters, circled digits, blanks, an accent.
RULES = ["FF21\t41", "FF22\t42", "2460\t31", "2461\t32", "9\t20", "A\t20", "D\t20", "3000\t20", "A0\t20",
         "65 301\tE9", "BD\t31 2F 32", "200B\t"]


def character_map():
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "rules.tsv").write_text("\n".join(RULES) + "\n")
        (place / "text").write_text("\n".join(TRAINING))
        sentencepiece.SentencePieceTrainer.train(
            input=str(place / "text"), model_prefix=str(place / "model"), vocab_size=60, hard_vocab_limit=False,
            normalization_rule_tsv=str(place / "rules.tsv"), minloglevel=2)
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString((place / "model.model").read_bytes())
        return model.normalizer_spec.precompiled_charsmap


def unigram(fallback):
    tokenizer = Tokenizer(models.Unigram())
    special = ["<pad>", "</s>", "<unk>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if fallback else [])
    if fallback:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(character_map()),
                                                     normalizers.Replace(Regex(" {2,}"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.train_from_iterator(TRAINING, trainers.UnigramTrainer(
        vocab_size=200 + len(special), special_tokens=special, unk_token="<unk>", show_progress=False))
    made = json.loads(tokenizer.to_str())
    made["model"]["byte_fallback"] = fallback
    # Blanks are spelled as a sign, which the training text has not without a pre-tokenizer that cuts.
    tokenizer = Tokenizer.from_str(json.dumps(made))
    tokenizer.add_special_tokens([END])
    return tokenizer


def wordpiece(lowercase=False, vocabulary=260):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(TRAINING, trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=["[PAD]", "[UNK]", "[MASK]"], show_progress=False))
    tokenizer.add_special_tokens([END])
    return tokenizer


def composed():
    """As Qwen's: NFC before byte-level pairs."""
    tokenizer = llama3()
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def plain_letters():
    """As ALBERT's, without its character map."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Strip(), normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(TRAINING, trainers.UnigramTrainer(
        vocab_size=160, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False))
    tokenizer.add_special_tokens([END])
    return tokenizer


def words():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.NFD(), normalizers.Strip(left=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(TRAINING, trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<unk>"], show_progress=False))
    tokenizer.add_special_tokens([END])
    return tokenizer


# Letters that change when they become small, lose their accents or are composed.
LETTERS = ["AND God SAID, Café NAÏVE", "İstanbul ΟΔΥΣΣΕΥΣ STRASSE straße ǅ ﬁ ﷺ Å \u212B", "e\u0301 \u00e9 o\u0308\u0323 "
           "\u1e0b\u0323 \u0344 \u0915\u093f\u0928\u093c \uac00\ub098 \u1100\u1161 ⃝\u20dd", "  LIGHT  ", "ПРИВЕТ Мир Йод ё",
           "snake_case a\u200db 3x٣ –“quoted”…", "``And``"]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1
                          else pathlib.Path(__file__).parent / "tokenizers")
    folder.mkdir(parents=True, exist_ok=True)
    made = {"gpt2": gpt2(), "llama3": llama3(), "llama2": sentencepiece(False),
            "metaspace": sentencepiece(True), "digits": digits(),
            "unigram": unigram(False), "unigram_bytes": unigram(True), "wordpiece": wordpiece(),
            "uncased": wordpiece(lowercase=True, vocabulary=300), "composed": composed(), "plain_letters": plain_letters(), "words": words()}
    for name, tokenizer in made.items():
        # The trainer makes the 256 byte tokens special too; published files do not.
        made_file = json.loads(tokenizer.to_str())
        made_file["added_tokens"] = [token for token in made_file["added_tokens"]
                                     if not token["content"].startswith("<0x")]
        path = folder / f"{name}.json"
        path.write_text(json.dumps(made_file, ensure_ascii=False) + "\n")
        tokenizer = Tokenizer.from_file(str(path))
        letters = LETTERS if name in ("uncased", "composed", "plain_letters", "words") else []
        rows = [{"text": text, "tokens": tokenizer.encode(text, add_special_tokens=False).ids}
                for text in TEXTS + letters + ["\n".join(TRAINING[:4])]]
        (folder / f"{name}.tokens.json").write_text(json.dumps(rows, ensure_ascii=False) + "\n")


main()
