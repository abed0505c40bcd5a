#include "exec/data/normalizer.h"

#include <algorithm>

#include "exec/data/charsmap.h"
#include "exec/data/unicode.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr std::size_t longest_insert = 256, most_growth = 64, always_allowed = 1 << 16;  // bytes

// A step without settings that changes a line in the same way wherever the line is.
struct Plain {
  const char* type;
  std::string (*normalized)(std::string_view text);
};

template <NormalForm form>
std::string in_form(std::string_view text) {
  return normal_form(text, form);
}

constexpr Plain plain_steps[] = {
    {"NFC", in_form<NormalForm::nfc>},
    {"NFD", in_form<NormalForm::nfd>},
    {"NFKC", in_form<NormalForm::nfkc>},
    {"NFKD", in_form<NormalForm::nfkd>},
    {"Lowercase", lower_case},
    {"StripAccents", [](std::string_view text) { return without_marks(text, Marks::all); }},
};

}  // namespace

std::string inserted_text(Fields& step, const char* key) {
  const auto text = step.required<std::string>(key);
  if (text.size() > longest_insert)
    step.fail(key, "is longer than " + std::to_string(longest_insert) + " bytes");
  return text;
}

std::string expression_of(Fields& step) {
  Fields pattern = step.object("pattern");
  if (pattern.has("Regex")) return pattern.required<std::string>("Regex");
  return Pattern::quoted(pattern.required<std::string>("String"));
}

void check_growth(std::size_t given, std::size_t bytes, const std::string& where) {
  if (bytes > most_growth * given + always_allowed)
    throw InputError(where + ": its normalizer and pre_tokenizer make more than " +
                     std::to_string(most_growth) + " bytes of one; is a step repeated?");
}

Normalizer::Normalizer(Fields step) : where_(step.where()) { add(std::move(step)); }

void Normalizer::add(Fields step) {
  const auto type = step.required<std::string>("type");
  const auto* plain = std::ranges::find(plain_steps, type, &Plain::type);
  if (plain != std::end(plain_steps)) {
    steps_.push_back(
        [change = plain->normalized](const std::string& text, Start) { return change(text); });
  } else if (type == "Sequence") {
    for (const Fields& part : step.objects("normalizers")) add(part);
  } else if (type == "Prepend") {
    lines_are_apart_ = false;
    steps_.push_back([with = inserted_text(step, "prepend")](std::string text, Start start) {
      if (start != Start::within) text.insert(0, with);
      return text;
    });
  } else if (type == "Replace") {
    lines_are_apart_ = false;
    replace(Pattern(expression_of(step), step.where() + ": " + step.pointer()),
            inserted_text(step, "content"));
  } else if (type == "Precompiled") {
    lines_are_apart_ = false;
    const CharacterMap map(step.required<std::string>("precompiled_charsmap"),
                           step.where() + ": " + step.pointer() + "/precompiled_charsmap");
    steps_.push_back([map](const std::string& text, Start) { return map.normalized(text); });
  } else if (type == "Strip") {
    add_strip(step);
  } else if (type == "BertNormalizer") {
    add_bert(step);
  } else {
    step.fail("type", "'" + type +
                          "' is not supported; known: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, "
                          "StripAccents, Strip, Prepend, Replace, Precompiled and BertNormalizer");
  }
}

void Normalizer::replace(Pattern pattern, std::string with) {
  change(std::move(pattern), [with = std::move(with)](std::string_view) { return with; });
}

void Normalizer::change(Pattern pattern, std::function<std::string(std::string_view)> with) {
  steps_.push_back(
      [pattern = std::move(pattern), with = std::move(with)](const std::string& text, Start) {
        std::string changed;
        pattern.split(text, [&](std::string_view piece, bool matched) {
          matched ? changed += with(piece) : changed += piece;
        });
        return changed;
      });
}

// Adds a step that removes blanks at the ends of a text. A special token ends a text too.
void Normalizer::add_strip(Fields& step) {
  lines_are_apart_ = false;
  if (step.optional<bool>("strip_left", true)) replace(Pattern(R"(\A\s+)", step.where()), "");
  if (step.optional<bool>("strip_right", true))
    replace(Pattern(R"((?<!\s)\s+\z)", step.where()), "");
}

// Adds BERT's steps. By default, they remove control characters, make all blanks one kind, and put
// blanks around Chinese characters so that each is a word. In uncased models they also remove
// accents and change letters to lower case.
void Normalizer::add_bert(Fields& step) {
  const auto pattern = [&](const char* expression) { return Pattern(expression, step.where()); };
  if (step.optional<bool>("clean_text", true)) {
    lines_are_apart_ = false;
    replace(pattern(R"((?![\t\n\r])[\p{C}\x{FFFD}])"), "");
    replace(pattern(R"(\s)"), " ");
  }
  if (step.optional<bool>("handle_chinese_chars", true)) {
    lines_are_apart_ = false;
    change(
        pattern(R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F})"
                R"(\x{2B740}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}])"),
        [](std::string_view character) { return ' ' + std::string(character) + ' '; });
  }
  const bool lowercase = step.optional<bool>("lowercase", true);
  const bool said = step.has("strip_accents") && !step.raw("strip_accents").is_null();
  if (said ? step.required<bool>("strip_accents") : lowercase)
    steps_.push_back([](const std::string& text, Start) {
      return without_marks(normal_form(text, NormalForm::nfd), Marks::nonspacing);
    });
  if (lowercase) steps_.push_back([](const std::string& text, Start) { return lower_case(text); });
}

std::string Normalizer::normalized(std::string text, Start start) const {
  const std::size_t given = text.size();
  for (const Step& step : steps_) {
    text = step(std::move(text), start);
    check_growth(given, text.size(), where_);
  }
  return text;
}

}  // namespace meshwright::exec
