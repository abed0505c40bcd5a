"""ONNX files of the tiny models of tests/golden/transformers, with the weights that lie there: so
their logits, losses and gradients are the golden ones.

    python3 -m venv venv && venv/bin/pip install torch onnx onnxscript transformers==4.46.3
    venv/bin/python tests/golden/make_onnx.py

(made with torch 2.15). Writes tests/golden/onnx/<model>-<operator set>[-<what is special>].onnx with
the exporter that optimum uses, or `dynamo`: the newer one. `mask`: attention_mask and position_ids are
inputs, as optimum has them. `static`: a fixed batch and length. `fresh`: newly drawn weights, of
which many are equal, and smaller. `external`: the weights lie in a file beside it.
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
           "bert": ("BertConfig", "BertForMaskedLM")}
FILES = [("gpt2", 13, ""), ("gpt2", 17, "mask"), ("gpt2", 18, "dynamo"), ("gpt2", 14, "static"),
         ("gpt2", 17, "fresh"), ("llama", 14, ""), ("llama", 18, "mask"),
         ("llama", 17, "external"), ("llama", 17, "sdpa"), ("bert", 17, "mask")]


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
            key = "token_type_ids" if name == "bert" else "position_ids"
            given = {} if third is None else {key: third}
            if name != "bert":
                given["use_cache"] = False
            return super().forward(input_ids=input_ids, attention_mask=attention_mask,
                                   **given).logits

    model = base(config)
    model.__class__ = Only
    model.eval()
    if special != "fresh":
        weights = dict(stored(folder))
        if name == "bert":
            weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"]
        missing, unexpected = model.load_state_dict(weights, strict=False)
        assert not unexpected, unexpected
        assert all("lm_head" in key or "decoder.weight" in key or "bias" == key.split(".")[-1]
                   or "inv_freq" in key or "position_ids" in key for key in missing), missing
        model.tie_weights()
    return model


def main():
    out = GOLDEN / "onnx"
    out.mkdir(exist_ok=True)
    for old in out.iterdir():  # weights would be appended
        old.unlink()
    for name, opset, special in FILES:
        model = model_of(name, special)
        file = out / ("-".join(filter(None, [name, str(opset), special])) + ".onnx")
        tokens = torch.randint(0, 40, (2, 12))
        inputs, names = (tokens,), ["input_ids"]
        if special in ("mask", "sdpa"):
            third = "token_type_ids" if name == "bert" else "position_ids"
            last = torch.zeros_like(tokens) if name == "bert" else torch.arange(12).expand(2, 12)
            inputs += (torch.ones_like(tokens), last.contiguous())
            names += ["attention_mask", third]
        options = {}
        if special == "dynamo":
            batch, length = torch.export.Dim("batch", min=2), torch.export.Dim("sequence", min=4, max=16)
            options = {"dynamic_shapes": ({0: batch, 1: length},), "external_data": False}
        elif special != "static":
            options = {"dynamic_axes": {each: {0: "batch_size", 1: "sequence_length"}
                                        for each in [*names, "logits"]}}
        torch.onnx.export(model, inputs, str(file), input_names=names, output_names=["logits"],
                          opset_version=opset, dynamo=special == "dynamo", **options)
        graph = onnx.load(str(file))
        for node in graph.graph.node:  # where in the sources an operation stands
            node.doc_string = ""
            scopes = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
            del node.metadata_props[:]
            node.metadata_props.extend(scopes)
        del graph.metadata_props[:]
        del graph.graph.metadata_props[:]
        del graph.graph.value_info[:]
        onnx.save(graph, str(file), save_as_external_data=special == "external",
                  location=file.stem + ".data", size_threshold=256)
        print(file.name, file.stat().st_size, len(graph.graph.node), graph.opset_import[0].version)


main()
