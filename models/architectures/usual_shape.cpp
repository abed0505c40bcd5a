#include "models/architectures/usual_shape.h"

#include <fmt/format.h>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/architectures/hub_names.h"
#include "models/architectures/model.h"
#include "models/core/error.h"
#include "models/core/written_number.h"

namespace meshwright::architectures {

using nlohmann::json;

namespace {

constexpr double fewest_parameters = 1e7, most_parameters = 2e12;

// Holds the sizes of a dense decoder.
struct Shape {
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0, positions = 0;
  bool tied = false;
};

std::int64_t rounded_up(double value, std::int64_t multiple) {
  return (static_cast<std::int64_t>(std::ceil(value)) + multiple - 1) / multiple * multiple;
}

// Returns a shape like those of Llama 3: heads of 128 (of 64 below 1 B parameters), 8 heads of keys
// (or 4, 2, 1 if 8 do not divide the heads), a gated MLP that is about 3.5 times as wide.
Shape llama_shape(std::int64_t hidden, double parameters) {
  Shape shape;
  shape.hidden = hidden;
  shape.heads = hidden / (parameters < 1e9 ? 64 : 128);
  for (const int kv_heads : {8, 4, 2, 1})
    if (shape.kv_heads == 0 && shape.heads % kv_heads == 0) shape.kv_heads = kv_heads;
  shape.ffn = rounded_up(3.5 * static_cast<double>(hidden), 256);
  shape.tied = parameters < 4e9;
  return shape;
}

// Returns a shape like those of GPT-3: heads of 128 (of 64 below 2 B parameters), an MLP that is 4
// times as wide, and one table for embeddings and logits.
Shape gpt_shape(std::int64_t hidden, double parameters) {
  Shape shape;
  shape.hidden = hidden;
  shape.heads = shape.kv_heads = hidden / (parameters < 2e9 ? 64 : 128);
  shape.ffn = 4 * hidden;
  shape.tied = true;
  return shape;
}

double block_parameters(bool is_llama, const Shape& s) {
  const auto h = static_cast<double>(s.hidden), f = static_cast<double>(s.ffn);
  const double keys = h / static_cast<double>(s.heads) * static_cast<double>(s.kv_heads);
  const double matrices = 2 * h * h + 2 * h * keys + (is_llama ? 3 : 2) * h * f;
  return is_llama ? matrices + 2 * h : matrices + 9 * h + f;  // norms and biases
}

double other_parameters(bool is_llama, const Shape& s) {
  const auto h = static_cast<double>(s.hidden), v = static_cast<double>(s.vocab);
  return (s.tied ? 1 : 2) * v * h + (is_llama ? h : 2 * h + static_cast<double>(s.positions) * h);
}

// Returns how unlike the models of its family a shape is, and how far its `count` of parameters is
// from `parameters`. The width of published models is about 112 times the number of layers (Llama
// 3: 102 to 130), and a multiple of 1024 from 2048 on, which degrees of tensor parallelism up to 8
// divide.
double oddness(const Shape& s, double count, double parameters) {
  const double aspect = static_cast<double>(s.hidden) / static_cast<double>(s.layers);
  const std::int64_t multiple = s.hidden >= 2048 ? 1024 : 256;
  return 20 * std::abs(std::log(count / parameters)) + std::abs(std::log(aspect / 112)) +
         (s.hidden % multiple == 0 ? 0 : 1);
}

Shape shape_for(bool is_llama, double parameters, std::int64_t vocab, std::int64_t positions) {
  Shape best;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t hidden = 256; hidden <= 65536; hidden += 128) {
    Shape shape = is_llama ? llama_shape(hidden, parameters) : gpt_shape(hidden, parameters);
    shape.vocab = vocab;
    shape.positions = positions;
    const double block = block_parameters(is_llama, shape);
    const double left = parameters - other_parameters(is_llama, shape);
    shape.layers = std::max<std::int64_t>(1, std::llround(left / block));
    const double count =
        static_cast<double>(shape.layers) * block + other_parameters(is_llama, shape);
    const double odd = oddness(shape, count, parameters);
    if (odd < least) {
      least = odd;
      best = shape;
    }
  }
  return best;
}

double parameters_of(Fields& fields) {
  const bool is_text = fields.is_string("parameters");
  const std::string text = is_text ? fields.required<std::string>("parameters") : "";
  const std::optional<double> number =
      is_text ? written_number(text, NumberKind::count) : fields.required<double>("parameters");
  if (text == "largest")
    fields.fail("parameters",
                "the largest model is found by `plan` and `advise`, with --by or --budget");
  if (!number)
    fields.fail("parameters",
                "expected a number of parameters such as 3B or 350M, found '" + text + "'");
  if (!(*number >= fewest_parameters && *number <= most_parameters)) {
    const bool counts_billions = *number >= 0.01 && *number <= 2000;
    fields.fail("parameters", "is out of range; use 10M to 2T" +
                                  (counts_billions ? fmt::format("; did you mean {}B?", *number)
                                                   : std::string()));
  }
  return *number;
}

// Returns the family with usual shapes that a word in any case means, or "" if it means none.
std::string usual_family(std::string_view word) {
  std::string name;
  for (const char c : word)
    if (c != ' ') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name == "llama" || name == "gpt" ? name : "";
}

}  // namespace

std::optional<json> model_of_words(const std::string& ref) {
  if (ref.starts_with('{')) {  // an object, as a job file would have it
    const json object = json::parse(ref, nullptr, false);
    return object.is_object() ? std::optional(object) : std::nullopt;
  }
  const std::size_t colon = ref.find(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  // Other programs write names of the zoo with a colon, "qwen2.5:7b", and addresses have one.
  const bool is_size = usual_family(ref.substr(0, colon)) != "";
  if (!is_size && (!zoo_name_of(ref).empty() || ref.find("//") != std::string::npos))
    return std::nullopt;
  return json{{"family", ref.substr(0, colon)}, {"parameters", ref.substr(colon + 1)}};
}

json with_usual_shape(const Fields& model) {
  Fields fields = model;
  const auto family = fields.required<std::string>("family");
  const bool is_llama = usual_family(family) == "llama";
  if (usual_family(family).empty())
    fields.fail("family",
                "there is no usual shape of '" + family +
                    "' here; use llama or gpt, or give the sizes instead of `parameters`");
  for (const char* size : {"hidden", "layers", "heads", "kv_heads", "ffn"})
    if (fields.has(size))
      fields.fail(size, "given beside `parameters`, from which the sizes follow; keep one of them");
  json whole = fields.raw();
  const double parameters = parameters_of(fields);
  const Shape shape =
      shape_for(is_llama, parameters, whole.value("vocab", is_llama ? 128256 : 50257),
                whole.value("positions", is_llama ? 8192 : 2048));
  whole.erase("parameters");
  whole["family"] = usual_family(family);
  whole["hidden"] = shape.hidden;
  whole["layers"] = shape.layers;
  whole["heads"] = shape.heads;
  if (is_llama) whole["kv_heads"] = shape.kv_heads;
  whole["ffn"] = shape.ffn;
  whole["vocab"] = shape.vocab;
  whole["positions"] = shape.positions;
  whole["tied_embeddings"] = shape.tied;
  return whole;
}

std::string shape_text(const json& model) {
  const auto size = [&](const char* key) { return model.value(key, std::int64_t{0}); };
  return fmt::format("hidden {}, {} layers, {} heads{}, ffn {}, vocabulary {}", size("hidden"),
                     size("layers"), size("heads"),
                     size("kv_heads") > 0 ? fmt::format(" ({} of keys)", size("kv_heads")) : "",
                     size("ffn"), size("vocab"));
}

}  // namespace meshwright::architectures
