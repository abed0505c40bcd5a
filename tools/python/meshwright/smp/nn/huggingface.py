"""Translations between a model of transformers and the library's form of it.

A model keeps transformers' own names here, so that each of these functions gives its argument back.
`from meshwright.smp.nn.huggingface.gpt2 import translate_state_dict_to_hf_gpt2` works as in the library.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Dict, List

_MODELS = {"gpt2": "gpt2", "bert": "bert", "roberta": "roberta", "gptj": "gptj", "gptneo": "gptneo",
           "gptneox": "gptneox", "t5": "t5", "vit": "vit"}
__all__: List[str] = list(_MODELS)


def _same(state_dict: Dict[str, Any], *args: Any, **kwargs: Any) -> Dict[str, Any]:
    """The same dictionary: its names are transformers' own."""
    return state_dict


for _name in _MODELS:
    _module = types.ModuleType(__name__ + "." + _name, "Translations of {}, which change nothing.".format(_name))
    for _function in ("translate_hf_state_dict_to_smdistributed_" + _name, "translate_state_dict_to_hf_" + _name):
        setattr(_module, _function, _same)
    sys.modules[_module.__name__] = globals()[_name] = _module
__path__: List[str] = []   # a package, for `from meshwright.smp.nn.huggingface.gpt2 import ...`
