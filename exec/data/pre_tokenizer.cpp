#include "exec/data/pre_tokenizer.h"

#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// GPT-2's expression for words (Radford et al. 2019). It matches contractions, then letters, digits
// or other signs with at most one blank before them, then blanks, the last of which stays with what
// follows.
constexpr const char* gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  if (what.empty()) return;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

std::string type_of(Fields& step) { return step.required<std::string>("type"); }

std::size_t bytes_of(const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  return bytes;
}

}  // namespace

PreTokenizer::PreTokenizer(Fields tokenizer) : where_(tokenizer.where()) {
  const auto given = [&](const char* key) {
    return tokenizer.has(key) && !tokenizer.raw(key).is_null();
  };
  if (given("normalizer")) normalizer_ = Normalizer(tokenizer.object("normalizer"));
  if (given("pre_tokenizer")) add_step(tokenizer.object("pre_tokenizer"));
}

void PreTokenizer::add_step(Fields step) {
  const std::string type = type_of(step);
  if (byte_level_)
    step.fail("type", "'" + type + "' comes after ByteLevel; that step must be the last");
  if (type == "Sequence") {
    for (const Fields& part : step.objects("pretokenizers")) add_step(part);
  } else if (type == "ByteLevel") {
    add_byte_level(step);
  } else if (type == "Split") {
    add_split(step);
  } else if (type == "Digits") {
    const bool each = step.optional<bool>("individual_digits", false);
    cut(Pattern(each ? R"(\p{N})" : R"(\p{N}+)", step.where()), true, true);
  } else if (type == "Metaspace") {
    add_metaspace(step);
  } else if (type == "WhitespaceSplit") {
    cut(Pattern(R"(\s+)", step.where()), false, true);
  } else if (type == "Whitespace") {
    const std::string letters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D})";
    cut(Pattern("[" + letters + "]+|[^\\s" + letters + "]+", step.where()), true, false);
  } else if (type == "BertPreTokenizer") {
    cut(Pattern(R"(\s+)", step.where()), false, true);
    cut(Pattern(R"([!-/:-@\[-`{-~]|\p{P})", step.where()), true, true);
  } else {
    step.fail("type", "'" + type +
                          "' is not supported; known: Sequence, ByteLevel, Split, Digits, "
                          "Metaspace, WhitespaceSplit, Whitespace and BertPreTokenizer");
  }
}

void PreTokenizer::cut(Pattern pattern, bool keep_matches, bool keep_rest) {
  steps_.push_back(
      [pattern = std::move(pattern), keep_matches, keep_rest](const Words& words, Start) {
        Words cut;
        for (const std::string& word : words)
          pattern.split(word, [&](std::string_view piece, bool matched) {
            if (matched ? keep_matches : keep_rest) cut.emplace_back(piece);
          });
        return cut;
      });
}

void PreTokenizer::add_byte_level(Fields& step) {
  byte_level_ = true;
  const bool adds_blanks = step.optional<bool>("add_prefix_space", true);
  adds_blanks_ = adds_blanks_ || adds_blanks;
  if (adds_blanks)
    steps_.push_back([](Words words, Start start) {
      for (std::size_t i = start == Start::within ? 1 : 0; i < words.size(); ++i)
        if (!words[i].starts_with(' ')) words[i].insert(0, 1, ' ');
      return words;
    });
  if (step.optional<bool>("use_regex", true)) cut(Pattern(gpt2_words, step.where()), true, true);
}

void PreTokenizer::add_split(Fields& step) {
  const std::string behavior = step.required<std::string>("behavior");
  if (behavior != "Isolated" && behavior != "Removed")
    step.fail("behavior", "'" + behavior + "' is not supported; known: Isolated and Removed");
  const bool invert = step.optional<bool>("invert", false), removed = behavior == "Removed";
  const Pattern pattern(expression_of(step), step.where() + ": " + step.pointer());
  cut(pattern, !removed || invert, !removed || !invert);
}

// Adds SentencePiece's step. Blanks become a visible sign, which `prepend_scheme` may also put
// before a text. Unless `split` is false, text is split before each sign.
void PreTokenizer::add_metaspace(Fields& step) {
  const std::string sign =
      step.has("replacement") ? inserted_text(step, "replacement") : "\xE2\x96\x81";
  const bool prefix = step.optional<bool>("add_prefix_space", true);
  const std::string scheme =
      step.optional<std::string>("prepend_scheme", prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    step.fail("prepend_scheme", "'" + scheme + "' is unknown; known: always, first and never");
  const bool always = scheme == "always", first = scheme == "first";
  steps_.push_back([sign, always, first](Words words, Start start) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      replace_all(words[i], " ", sign);
      const bool prepend =
          i == 0 ? (always && start != Start::within) || (first && start == Start::document)
                 : always;
      if (prepend && !words[i].starts_with(sign)) words[i].insert(0, sign);
    }
    return words;
  });
  if (step.optional<bool>("split", true))
    cut(Pattern("(?:" + Pattern::quoted(sign) + "|^)(?:(?!" + Pattern::quoted(sign) + ")[\\s\\S])*",
                step.where()),
        true, true);
}

PreTokenizer::Words PreTokenizer::words(std::string_view text, Start start) const {
  Words words{normalizer_.normalized(std::string(text), start)};
  if (words[0].empty()) return {};
  for (const Step& step : steps_) {
    words = step(std::move(words), start);
    check_growth(text.size(), bytes_of(words), where_);
  }
  return words;
}

}  // namespace meshwright::exec
