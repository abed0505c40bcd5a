"""Golden tokens of prompts and completions from an independent implementation: transformers' chat templates.

    python3 -m venv venv && venv/bin/pip install transformers jinja2
    venv/bin/python tests/golden/make_pairs_golden.py [file]

(made with transformers 5.23). Writes tests/golden/pairs.json: a list of {"template", "tokenizer", "added", "rows"}, a row being
{"messages", "tokens", "learned"}. `tokenizer` is a file of tests/golden/tokenizers, `added` what is added to it. What is learned is what the
templates put between `generation` marks; without these marks they are those that models are published with. Of `plain` there is no template: a
row's tokens are those of the whole text, and the completion's are those behind the prompt's.
"""

import json
import pathlib
import sys

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

FOLDER = pathlib.Path(__file__).parent

# https://huggingface.co/docs/transformers/chat_templating
CHATML = ("{%- for message in messages %}"
          "{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
          "{%- endfor %}")
CHATML_MARKED = ("{%- for message in messages %}{{- '<|im_start|>' + message['role'] + '\n' }}"
                 "{%- if message['role'] == 'assistant' %}{% generation %}"
                 "{{- message['content'] + '<|im_end|>' }}{% endgeneration %}"
                 "{%- else %}{{- message['content'] + '<|im_end|>' }}{%- endif %}{{- '\n' }}"
                 "{%- endfor %}")

# https://huggingface.co/meta-llama/Meta-Llama-3-8B-Instruct
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}"
          "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
          "+ message['content'] | trim + '<|eot_id|>' %}"
          "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}")
LLAMA3_MARKED = ("{% for message in messages %}{% if loop.index0 == 0 %}{{ bos_token }}{% endif %}"
                 "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
                 "{% if message['role'] == 'assistant' %}{% generation %}"
                 "{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
                 "{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}")

TEMPLATES = {
    "chatml": (CHATML, CHATML_MARKED, ["<|im_start|>", "<|im_end|>"], None),
    "llama-3": (LLAMA3, LLAMA3_MARKED,
                ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], "<|begin_of_text|>"),
}

U, A, S = "user", "assistant", "system"
CONVERSATIONS = [
    [(U, "And God said"), (A, "Let there be light: and there was light.")],
    [(S, "You know 1234 reasons."), (U, "  I'm here, they're\n\nthere? "), (A, " We've  2 lines\nand more.\n")],
    [(U, "naïve café"), (A, "東京 and Привет"), (U, "\u00a0\u2003the face\u3000"), (A, "\t\u00a0of the waters\u2028 ")],
    [(S, ""), (U, "the deep"), (A, "")],
    [(A, "the earth"), (A, "was void"), (U, "without form")],
    [(U, "no answer")],
]
PAIRS = [("And God said,", " Let there be light"), ("the earth ", "was void"), ("form:", "void"), ("I'm", " 1234 there"),
         ("darkness", "; and"), ("", "the face of the deep"), ("東京", " café\n")]


def tokenizer_of(name, added=(), bos=None):
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizers" / f"{name}.json"))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in added])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **({"bos_token": bos} if bos else {}))


def rows_of_template(tokenizer, published, marked):
    rows = []
    for conversation in CONVERSATIONS:
        messages = [{"role": role, "content": content} for role, content in conversation]
        text = tokenizer.apply_chat_template(messages, chat_template=published, tokenize=False)
        made = tokenizer.apply_chat_template(messages, chat_template=marked, tokenize=True, return_dict=True,
                                             return_assistant_tokens_mask=True)
        assert made["input_ids"] == tokenizer(text, add_special_tokens=False)["input_ids"], text
        rows.append({"messages": messages, "tokens": made["input_ids"], "learned": made["assistant_masks"]})
    return rows


def rows_of_plain(tokenizer):
    rows = []
    for prompt, completion in PAIRS:
        before, whole = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, prompt + completion))
        if whole[:len(before)] != before:
            continue  # a token reaches over the border
        rows.append({"messages": [{"role": U, "content": prompt}, {"role": A, "content": completion}],
                     "tokens": whole, "learned": [0] * len(before) + [1] * (len(whole) - len(before))})
    return rows


def main():
    golden = []
    for template, (published, marked, added, bos) in TEMPLATES.items():
        for name in ("gpt2", "llama3", "llama2", "metaspace"):
            tokenizer = tokenizer_of(name, added, bos)
            golden.append({"template": template, "tokenizer": name,
                           "added": {token: tokenizer.convert_tokens_to_ids(token) for token in added},
                           "rows": rows_of_template(tokenizer, published, marked)})
    for name in ("gpt2", "llama3", "llama2", "metaspace", "digits", "unigram_bytes"):
        golden.append({"template": "plain", "tokenizer": name, "added": {}, "rows": rows_of_plain(tokenizer_of(name))})
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "pairs.json"
    path.write_text("[" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in golden) + "]\n")


main()
