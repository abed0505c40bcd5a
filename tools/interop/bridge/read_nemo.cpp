// Translates the settings of NeMo's recipes (trainer.*, model.*, model.optim.*) to Megatron-LM's
// arguments.

#include "tools/interop/amounts.h"
#include "tools/interop/bridge/bridge.h"

namespace meshwright::interop {

namespace {

void say_nemo_precision(Translation& file) {
  std::string kind = "fp32";
  if (const Setting* precision = file.find("trainer.precision"); precision != nullptr) {
    const std::string word = precision->value.is_string() ? precision->value.get<std::string>()
                                                          : precision->value.dump();
    kind = word.starts_with("bf16")                             ? "bf16"
           : word.starts_with("16") || word.starts_with("fp16") ? "fp16"
                                                                : "fp32";
    if (kind == "fp32" && !word.starts_with("32"))
      file.fail(*precision, "'" + word + "' is none of bf16, bf16-mixed, 16, 16-mixed and 32");
    if (kind == "fp32")
      file.repeats("trainer.precision");
    else
      file.say(kind, true, {"trainer.precision"});
  }
  if (const Setting* fp8 = file.find("model.fp8"); fp8 != nullptr && fp8->value == true) {
    const Setting* narrow = file.find("model.fp8_e4m3");
    file.say("fp8-format", narrow != nullptr && narrow->value == true ? "e4m3" : "hybrid",
             {"model.fp8"});
    file.usual("fp8-recipe", "model.fp8", "delayed");
  }
  for (const char* other : {"model.fp8", "model.fp8_e4m3", "model.fp8_hybrid"}) file.repeats(other);
  const Setting* sync = file.find("model.optim.grad_sync_dtype");
  if (sync != nullptr && sync->value == "bf16")
    file.say("grad-reduce-in-bf16", true, {"model.optim.grad_sync_dtype"});
  else if (sync != nullptr)
    file.say("accumulate-allreduce-grads-in-fp32", true, {"model.optim.grad_sync_dtype"});
  else if (kind == "fp16")
    file.usual("accumulate-allreduce-grads-in-fp32", "model.optim.grad_sync_dtype", true);
}

// All GPUs of a host: the machine says how many.
void say_nemo_devices(Translation& file) {
  const Setting* devices = file.find("trainer.devices");
  if (devices != nullptr &&
      (devices->value == -1 || devices->value == "-1" || devices->value == "auto"))
    file.repeats("trainer.devices");
}

void say_nemo_model(Translation& file) {
  if (const Setting* norm = file.find("model.normalization"); norm != nullptr) {
    const json value = norm->value == "rmsnorm" ? json("RMSNorm")
                       : norm->value == "layernorm" || norm->value == "layernorm1p"
                           ? json("LayerNorm")
                           : norm->value;
    file.say("normalization", value, {"model.normalization"});
    if (norm->value == "layernorm1p") file.usual("apply-layernorm-1p", "model.normalization", true);
  }
  if (const Setting* activation = file.find("model.activation"); activation != nullptr) {
    const bool gated = activation->value == "fast-swiglu" || activation->value == "swiglu";
    const bool squared = activation->value == "squared-relu";
    const bool of_gemma = activation->value == "fast-geglu" || activation->value == "geglu";
    if (squared) file.usual("squared-relu", "model.activation", true);
    if (of_gemma) file.usual("geglu", "model.activation", true);
    if (!gated && !squared && !of_gemma && activation->value != "gelu")
      file.fail(*activation,
                activation->value.dump() +
                    ": no such MLP is built; gelu, squared-relu, swiglu and geglu are");
    file.say("swiglu", gated, {"model.activation"});
  }
  if (const Setting* groups = file.find("model.num_query_groups"); groups != nullptr) {
    const json value = groups->value;
    file.say("num-query-groups", value, {"model.num_query_groups"});
    file.say("group-query-attention", true, {"model.num_query_groups"});
  }
  // Computes an ffn_hidden_size that is given as an expression, "${multiply:4, ${.hidden_size}}".
  const Setting* ffn = file.find("model.ffn_hidden_size");
  const Setting* hidden = file.find("model.hidden_size");
  if (ffn != nullptr && hidden != nullptr && hidden->value.is_number() && ffn->value.is_string()) {
    std::string text = ffn->value;
    std::erase(text, ' ');
    constexpr std::string_view before = "${multiply:", after = ",${.hidden_size}}";
    if (text.starts_with(before) && text.ends_with(after) &&
        text.size() > before.size() + after.size()) {
      const std::string factor =
          text.substr(before.size(), text.size() - before.size() - after.size());
      if (factor.find_first_not_of("0123456789") == std::string::npos && factor.size() < 4)
        file.say("ffn-hidden-size", amount_of(hidden->value.get<double>() * std::stod(factor)),
                 {"model.ffn_hidden_size"});
    }
  }
}

// Changes that NeMo makes to a model of Megatron-Core: Gemma 2's soft caps, and Falcon's branches
// in parallel.
void say_customization(Translation& file) {
  const std::string part = "model.mcore_customization_config.";
  const auto say = [&](const char* name, const char* argument) {
    const std::string full = part + name;
    if (const Setting* found = file.find(full); found != nullptr) {
      const json value = found->value;
      file.say(argument, value, {full.c_str()});
    }
  };
  say("attn_logit_softcapping", "attn-logit-softcapping");
  say("final_logit_softcapping", "final-logit-softcapping");
  say("query_pre_attn_scalar", "query-pre-attn-scalar");
  say("parallel_attention", "parallel-attention");
  say("new_decoder_architecture", "new-decoder-architecture");
}

// A BERT has a pooler, or a head for pairs of sentences.
void say_bert(Translation& file) {
  bool is_said = false;
  for (const char* name :
       {"model.mcore_bert", "model.add_pooler", "model.bert_binary_head", "model.add_lm_head"}) {
    if (file.find(name) == nullptr) continue;
    if (is_said)
      file.repeats(name);
    else
      file.say("program", "pretrain_bert.py", {name});
    is_said = true;
  }
}

void say_nemo_optimizer(Translation& file) {
  if (const Setting* name = file.find("model.optim.name"); name != nullptr) {
    const std::string word = name->value.is_string() ? name->value.get<std::string>() : "";
    const bool shards = word.find("distributed") != std::string::npos;
    if (word.find("adam") == std::string::npos && word != "mcore_distributed_optim" &&
        word != "sgd")
      file.fail(*name, "'" + word + "': fused_adam, distributed_fused_adam and sgd are read");
    file.say("optimizer", word == "sgd" ? "sgd" : "adam", {"model.optim.name"});
    if (shards) file.usual("use-distributed-optimizer", "model.optim.name", true);
  }
  const char* betas = "model.optim.betas";
  if (const Setting* pair = file.find(betas);
      pair != nullptr && pair->value.is_array() && pair->value.size() == 2) {
    const json value = pair->value;
    file.say("adam-beta1", value[0], {betas});
    file.say("adam-beta2", value[1], {betas});
  }
  // NeMo counts a bucket in MiB of gradients, Megatron-LM in elements.
  const char* bucket = "model.optim.bucket_cap_mb";
  if (const Setting* size = file.find(bucket); size != nullptr && size->value.is_number()) {
    const Setting* sync = file.find("model.optim.grad_sync_dtype");
    const double bytes = sync != nullptr && sync->value == "bf16" ? 2 : 4;
    file.say("ddp-bucket-size", amount_of(size->value.get<double>() * 1024 * 1024 / bytes),
             {bucket});
  }
  if (const Setting* schedule = file.find("model.optim.sched.name"); schedule != nullptr) {
    const std::string word = schedule->value.is_string() ? schedule->value.get<std::string>() : "";
    file.say("lr-decay-style",
             word.find("Cosine") != std::string::npos   ? "cosine"
             : word.find("Linear") != std::string::npos ? "linear"
                                                        : "constant",
             {"model.optim.sched.name"});
  } else {
    file.usual("lr-decay-style", "model.optim.sched.name", "constant");
  }
}

}  // namespace

void translate_nemo(Translation& file) {
  say_nemo_precision(file);
  say_nemo_devices(file);
  say_nemo_model(file);
  say_customization(file);
  say_bert(file);
  say_nemo_optimizer(file);
}

}  // namespace meshwright::interop
