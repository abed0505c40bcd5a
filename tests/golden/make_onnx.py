"""ONNX files of the tiny models of tests/golden/transformers, with the weights that lie there: so
their logits, losses and gradients are the golden ones.

    python3 -m venv venv && venv/bin/pip install torch onnx onnxscript transformers==4.46.3
    venv/bin/python tests/golden/make_onnx.py

With transformers 4 it writes tests/golden/onnx/<model>-<operator set>[-<what is special>].onnx with
the exporter that optimum uses, or `dynamo`: the newer one. `mask`: attention_mask and position_ids are
inputs, as optimum has them. `static`: a fixed batch and length. `fresh`: newly drawn weights, of
which many are equal, and smaller. `external`: the weights lie in a file beside it.

With transformers 5 it writes tests/golden/onnx_5/<model>-<exporter>-<axes>-<attention>-<inputs>.onnx
for six models, by the TorchScript exporter (`script`) and the newer one (`dynamo`), with fixed and
free axes, each with the operator set that torch takes by itself. Three more files have the operator
set 23, whose operations are larger, heads of which a part is rotated, and norms of heads. All files
of a model share their weights, <model>.data. The TorchScript exporter needs attention_mask as an input of decoders, because
it cannot write torch.diff, by which transformers looks for packed sequences otherwise.

The files were made with torch 2.15, and transformers 4.46.3 and 5.24.0.
"""

import json
import pathlib
import warnings

import numpy
import onnx
import torch
import transformers

warnings.filterwarnings("ignore")
GOLDEN = pathlib.Path(__file__).resolve().parent
CLASSES = {"gpt2": ("GPT2Config", "GPT2LMHeadModel"), "llama": ("LlamaConfig", "LlamaForCausalLM"),
           "bert": ("BertConfig", "BertForMaskedLM"), "qwen2": ("Qwen2Config", "Qwen2ForCausalLM"),
           "gemma": ("GemmaConfig", "GemmaForCausalLM"),
           "roberta": ("RobertaConfig", "RobertaForMaskedLM"),
           "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM"),
           "qwen3": ("Qwen3Config", "Qwen3ForCausalLM")}
ENCODERS = ("bert", "roberta")
FILES = [("gpt2", 13, ""), ("gpt2", 17, "mask"), ("gpt2", 18, "dynamo"), ("gpt2", 14, "static"),
         ("gpt2", 17, "fresh"), ("llama", 14, ""), ("llama", 18, "mask"),
         ("llama", 17, "external"), ("llama", 17, "sdpa"), ("bert", 17, "mask")]
# Exporter, axes, attention, and the inputs besides input_ids.
EAGER_FIRST = ["script-fixed-eager-mask", "script-free-sdpa-third", "dynamo-fixed-sdpa-none",
               "dynamo-free-eager-mask"]
SDPA_FIRST = ["script-fixed-sdpa-third", "script-free-eager-mask", "dynamo-fixed-eager-mask",
              "dynamo-free-sdpa-none"]
FILES_5 = {"gpt2": EAGER_FIRST, "llama": [*SDPA_FIRST, "dynamo-free-sdpa-mask-23"],
           "bert": EAGER_FIRST, "qwen2": EAGER_FIRST, "gemma": SDPA_FIRST, "roberta": SDPA_FIRST,
           "gpt_neox": ["dynamo-free-sdpa-none"], "qwen3": ["script-free-sdpa-mask"]}


def stored(folder):
    data = numpy.fromfile(folder / "tensors.bin", dtype="<f4")
    for line in (folder / "tensors.txt").read_text().splitlines():
        name, shape, offset = line.split()
        shape = [int(size) for size in shape.split("x")]
        begin = int(offset) // 4
        if name.startswith("weight/"):
            count = int(numpy.prod(shape))
            yield name[len("weight/"):], torch.tensor(data[begin:begin + count].reshape(shape))


def model_of(name, special):
    folder = GOLDEN / "transformers" / name
    config = json.loads((folder / "config.json").read_text())
    config.pop("model_type")
    config.setdefault("pad_token_id", 0)
    config |= {"bos_token_id": 1, "eos_token_id": 2}
    if special == "fresh":
        config |= {"n_embd": 16, "n_head": 2, "vocab_size": 40}
    config_class, model_class = CLASSES[name]
    config = getattr(transformers, config_class)(**config)
    config._attn_implementation = "sdpa" if special == "sdpa" else "eager"
    config.use_cache = False
    torch.manual_seed(7)
    base = getattr(transformers, model_class)

    class Only(base):
        """Logits alone."""
        def forward(self, input_ids, attention_mask=None, third=None):
            key = "token_type_ids" if name in ENCODERS else "position_ids"
            given = {} if third is None else {key: third}
            if name not in ENCODERS:
                given["use_cache"] = False
            return super().forward(input_ids=input_ids, attention_mask=attention_mask,
                                   **given).logits

    model = base(config)
    model.__class__ = Only
    model.eval()
    if special != "fresh":
        weights = dict(stored(folder))
        if name == "gpt_neox":
            weights["lm_head.weight"] = weights.pop("embed_out.weight")
        if name == "roberta":
            weights["lm_head.decoder.bias"] = weights["lm_head.bias"]
        if name == "bert":
            weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"]
        missing, unexpected = model.load_state_dict(weights, strict=False)
        assert not unexpected, unexpected
        assert all("lm_head" in key or "decoder.weight" in key or "bias" == key.split(".")[-1]
                   or "inv_freq" in key or "position_ids" in key for key in missing), missing
        model.tie_weights()
    return model


def inputs_of(name, what):
    tokens = torch.randint(3, 40, (2, 12))
    inputs, names = [tokens], ["input_ids"]
    if what != "none":
        inputs.append(torch.ones_like(tokens))
        names.append("attention_mask")
    if what == "third":
        is_encoder = name in ENCODERS
        last = torch.zeros_like(tokens) if is_encoder else torch.arange(12).expand(2, 12)
        inputs.append(last.contiguous())
        names.append("token_type_ids" if is_encoder else "position_ids")
    return tuple(inputs), names


def exported(file, model, inputs, names, dynamo, fixed, opset):
    options = {} if opset is None else {"opset_version": opset}
    if dynamo:
        options["external_data"] = False
    if dynamo and not fixed:
        batch, length = torch.export.Dim("batch", min=2), torch.export.Dim("sequence", min=4, max=16)
        options["dynamic_shapes"] = tuple({0: batch, 1: length} for _ in names)
    elif not fixed:
        options["dynamic_axes"] = {each: {0: "batch_size", 1: "sequence_length"}
                                   for each in [*names, "logits"]}
    torch.onnx.export(model, inputs, str(file), input_names=names, output_names=["logits"],
                      dynamo=dynamo, **options)
    graph = onnx.load(str(file))
    for node in graph.graph.node:  # where in the sources an operation stands
        node.doc_string = ""
        scopes = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(scopes)
    del graph.metadata_props[:]
    del graph.graph.metadata_props[:]
    del graph.graph.value_info[:]
    return graph


def main_4():
    out = GOLDEN / "onnx"
    for name, opset, special in FILES:
        model = model_of(name, special)
        file = out / ("-".join(filter(None, [name, str(opset), special])) + ".onnx")
        inputs, names = inputs_of(name, "third" if special in ("mask", "sdpa") else "none")
        graph = exported(file, model, inputs, names, special == "dynamo", special == "static", opset)
        onnx.save(graph, str(file), save_as_external_data=special == "external",
                  location=file.stem + ".data", size_threshold=256)
        print(file.name, file.stat().st_size, len(graph.graph.node), graph.opset_import[0].version)


def shorten(graph):
    """Numbers the values that the TorchScript exporter names by their paths, which nobody reads."""
    new = {}
    for node in graph.node:
        for at, name in enumerate(node.output):
            if name.startswith("/"):
                node.output[at] = new.setdefault(name, f"/{len(new)}")
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = new.get(name, name)


def share(graph, shared, location):
    """Moves the weights to a file of several models, where equal ones lie once."""
    for tensor in graph.initializer:
        data = tensor.raw_data
        if len(data) < 256:
            continue
        offset = shared.find(data)
        if offset < 0:
            offset = len(shared)
            shared += data
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))


def main_5():
    out = GOLDEN / "onnx_5"
    for name, files in FILES_5.items():
        shared = bytearray()
        for kind in files:
            exporter, axes, attention, what, *opset = kind.split("-")
            model = model_of(name, attention)
            file = out / f"{name}-{kind}.onnx"
            inputs, names = inputs_of(name, what)
            graph = exported(file, model, inputs, names, exporter == "dynamo", axes == "fixed",
                             int(opset[0]) if opset else None)
            shorten(graph.graph)
            share(graph.graph, shared, name + ".data")
            file.write_bytes(graph.SerializeToString())
            print(file.name, file.stat().st_size, len(graph.graph.node), graph.opset_import[0].version)
        (out / (name + ".data")).write_bytes(shared)


def main():
    is_5 = transformers.__version__.startswith("5.")
    out = GOLDEN / ("onnx_5" if is_5 else "onnx")
    out.mkdir(exist_ok=True)
    for old in out.iterdir():  # weights would be appended
        old.unlink()
    (main_5 if is_5 else main_4)()


main()
