#include "exec/data/pre_tokenizer.h"

#include <nlohmann/json.hpp>

#include "exec/data/charsmap.h"
#include "models/core/error.h"

namespace meshwright {

namespace {

// How GPT-2 cuts text (Radford et al. 2019): contractions; letters, digits or other signs with at
// most one blank before; blanks, of which the last stays with what follows.
constexpr const char* gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  if (what.empty()) return;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

bool is_given(Fields& fields, const char* key) {
  return fields.has(key) && !fields.raw(key).is_null();
}

std::string type_of(Fields& step) { return step.required<std::string>("type"); }

// Text may become longer (a blank of one byte is often a sign of three), but steps that repeat it
// must not make it endless.
constexpr std::size_t longest_insert = 256, most_growth = 64, always_allowed = 1 << 16;  // bytes

std::size_t bytes_of(const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  return bytes;
}

// What a step puts into the text.
std::string insert_of(Fields& step, const char* key) {
  const auto text = step.required<std::string>(key);
  if (text.size() > longest_insert)
    step.fail(key, "is longer than " + std::to_string(longest_insert) + " bytes");
  return text;
}

// {"String": "..."} or {"Regex": "..."}
std::string expression_of(Fields& step) {
  Fields pattern = step.object("pattern");
  if (pattern.has("Regex")) return pattern.required<std::string>("Regex");
  return Pattern::quoted(pattern.required<std::string>("String"));
}

}  // namespace

PreTokenizer::PreTokenizer(Fields tokenizer) : where_(tokenizer.where()) {
  if (is_given(tokenizer, "normalizer")) add_normalizer(tokenizer.object("normalizer"));
  if (is_given(tokenizer, "pre_tokenizer")) add_step(tokenizer.object("pre_tokenizer"));
}

void PreTokenizer::add_normalizer(Fields step) {
  const std::string type = type_of(step);
  adds_blanks_ = true;
  if (type == "Sequence") {
    for (const Fields& part : step.objects("normalizers")) add_normalizer(part);
  } else if (type == "Prepend") {
    const std::string text = insert_of(step, "prepend");
    steps_.push_back([text](Words words, Start start) {
      if (start == Start::within) return words;
      for (std::string& word : words) word.insert(0, text);
      return words;
    });
  } else if (type == "Replace") {
    replace(Pattern(expression_of(step), step.where() + ": " + step.pointer()),
            insert_of(step, "content"));
  } else if (type == "Precompiled") {
    const CharacterMap map(step.required<std::string>("precompiled_charsmap"),
                           step.where() + ": " + step.pointer() + "/precompiled_charsmap");
    steps_.push_back([map](Words words, Start) {
      for (std::string& word : words) word = map.normalized(word);
      return words;
    });
  } else if (type == "BertNormalizer") {
    add_bert_normalizer(step);
  } else {
    step.fail("type", "'" + type +
                          "' is not supported; known: Sequence, Prepend, Replace, Precompiled and "
                          "BertNormalizer");
  }
}

void PreTokenizer::replace(Pattern pattern, std::string with) {
  change(std::move(pattern), [with = std::move(with)](std::string_view) { return with; });
}

void PreTokenizer::change(Pattern pattern, std::function<std::string(std::string_view)> with) {
  steps_.push_back([pattern = std::move(pattern), with = std::move(with)](Words words, Start) {
    for (std::string& word : words) {
      std::string replaced;
      pattern.split(word, [&](std::string_view piece, bool matched) {
        matched ? replaced += with(piece) : replaced += piece;
      });
      word = std::move(replaced);
    }
    return words;
  });
}

// Of cased models. Control characters go, blanks become one kind, and Chinese characters are words.
void PreTokenizer::add_bert_normalizer(Fields& step) {
  const bool lowercase = step.optional<bool>("lowercase", true);
  const bool strips = is_given(step, "strip_accents") && step.required<bool>("strip_accents");
  if (lowercase || strips)
    step.fail(lowercase ? "lowercase" : "strip_accents",
              "is not supported; use the tokenizer of a cased model");
  const auto pattern = [&](const char* expression) { return Pattern(expression, step.where()); };
  if (step.optional<bool>("clean_text", true)) {
    replace(pattern(R"((?![\t\n\r])[\p{C}\x{FFFD}])"), "");
    replace(pattern(R"(\s)"), " ");
  }
  if (step.optional<bool>("handle_chinese_chars", true))
    change(
        pattern(R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F})"
                R"(\x{2B740}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}])"),
        [](std::string_view character) { return ' ' + std::string(character) + ' '; });
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
  } else if (type == "BertPreTokenizer") {
    cut(Pattern(R"(\s+)", step.where()), false, true);
    cut(Pattern(R"([!-/:-@\[-`{-~]|\p{P})", step.where()), true, true);
  } else {
    step.fail("type", "'" + type +
                          "' is not supported; known: Sequence, ByteLevel, Split, Digits, "
                          "Metaspace, WhitespaceSplit and BertPreTokenizer");
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

// Blanks become a visible sign, and every word begins with one (SentencePiece).
void PreTokenizer::add_metaspace(Fields& step) {
  const std::string sign =
      step.has("replacement") ? insert_of(step, "replacement") : "\xE2\x96\x81";
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
  Words words{std::string(text)};
  for (const Step& step : steps_) {
    words = step(std::move(words), start);
    if (bytes_of(words) > most_growth * text.size() + always_allowed)
      throw InputError(where_ + ": its normalizer and pre_tokenizer make more than " +
                       std::to_string(most_growth) + " bytes of one; is a step repeated?");
  }
  return words;
}

}  // namespace meshwright
