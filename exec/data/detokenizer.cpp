#include "exec/data/detokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "exec/data/bpe.h"
#include "exec/data/normalizer.h"
#include "exec/data/pattern.h"
#include "models/core/json.h"
#include "models/core/utf8.h"

namespace meshwright::exec {

namespace {

constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

bool is_between(unsigned char byte, unsigned low, unsigned high) {
  return byte >= low && byte <= high;
}

// Returns how many bytes at the begin of `text`, which is not empty and begins no valid character,
// are the begin of one. It is at least 1.
std::size_t begun_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t wanted = is_between(first, 0xC2, 0xDF)   ? 2
                             : is_between(first, 0xE0, 0xEF) ? 3
                             : is_between(first, 0xF0, 0xF4) ? 4
                                                             : 1;
  std::size_t found = 1;
  for (; found < wanted && found < text.size(); ++found) {
    const bool second = found == 1;
    const unsigned low = second && first == 0xE0 ? 0xA0 : second && first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = second && first == 0xED ? 0x9F : second && first == 0xF4 ? 0x8F : 0xBF;
    if (!is_between(byte(found), low, high)) break;
  }
  return found;
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

std::string joined(const std::vector<std::string>& pieces, std::string_view between = "") {
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) text += between;
    text += pieces[i];
  }
  return text;
}

// Returns the bytes that the characters of byte-level tokens stand for.
std::unordered_map<std::string, char> bytes_of_spellings() {
  std::unordered_map<std::string, char> bytes;
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes[spelling_of_byte(static_cast<unsigned char>(byte))] = static_cast<char>(byte);
  return bytes;
}

// Joins byte-level tokens. A token with a character that stands for no byte is taken as it is.
std::vector<std::string> bytes_joined(const std::vector<std::string>& pieces) {
  static const std::unordered_map<std::string, char> bytes = bytes_of_spellings();
  std::string text;
  for (const std::string& piece : pieces) {
    std::string own;
    bool spelled = true;
    for (std::size_t at = 0; at < piece.size() && spelled;) {
      const std::size_t length = length_of_character(piece[at]);
      const auto found = bytes.find(piece.substr(at, length));
      spelled = found != bytes.end();
      if (spelled) own += found->second;
      at += length;
    }
    text += spelled ? own : piece;
  }
  return {with_valid_utf8(text)};
}

// Returns the byte that a token like <0x0A> stands for, or -1.
int byte_of(const std::string& piece) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const std::size_t high = digits.find(piece[3]), low = digits.find(piece[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(16 * high + low);
}

// Turns runs of tokens that stand for bytes into text. If a run is no UTF-8, each of its bytes
// becomes U+FFFD.
std::vector<std::string> bytes_decoded(const std::vector<std::string>& pieces) {
  std::vector<std::string> decoded;
  std::string run;
  const auto end_run = [&] {
    if (run.empty()) return;
    if (valid_utf8(run) == run.size())
      decoded.push_back(run);
    else
      decoded.insert(decoded.end(), run.size(), std::string(replacement_character));
    run.clear();
  };
  for (const std::string& piece : pieces) {
    if (const int byte = byte_of(piece); byte >= 0) {
      run += static_cast<char>(byte);
      continue;
    }
    end_run();
    decoded.push_back(piece);
  }
  end_run();
  return decoded;
}

// Removes blanks before punctuation and in English contractions, and contracts "do not", as
// WordPiece's `cleanup` does.
void clean_up(std::string& piece) {
  constexpr std::pair<std::string_view, std::string_view> changes[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : changes) replace_all(piece, what, with);
}

}  // namespace

std::string with_valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t good = valid_utf8(text);
    valid += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    valid += replacement_character;
    text.remove_prefix(begun_character(text));
  }
  return valid;
}

Detokenizer::Detokenizer(const std::string& path) : of_bytes_(false) {
  Fields file = read_json_file(path);
  read_texts(file);
  const auto given = [&](const char* key) { return file.has(key) && !file.raw(key).is_null(); };
  has_decoder_ = given("decoder");
  if (has_decoder_) add_step(file.object("decoder"));
  if (given("post_processor")) read_before_text(file.object("post_processor"));
}

// Reads the vocabulary and then the added tokens. The vocabulary is an object from tokens to
// numbers or, for Unigram, a list in the order of the numbers.
void Detokenizer::read_texts(Fields& file) {
  Fields model = file.object("model");
  const json& vocabulary = model.raw("vocab");
  if (vocabulary.is_array()) {
    for (std::size_t i = 0; i < vocabulary.size(); ++i)
      if (const json& pair = vocabulary[i]; pair.is_array() && !pair.empty() && pair[0].is_string())
        texts_[static_cast<std::int32_t>(i)] = pair[0].get<std::string>();
  } else {
    for (const auto& [text, number] : read_numbered_tokens(model)) texts_[number] = text;
  }
  if (!file.has("added_tokens")) return;
  for (Fields& token : file.objects("added_tokens")) {
    const int number = token.required<int>("id");
    if (token.optional<bool>("special", false))
      texts_.erase(number);
    else
      texts_[number] = token.required<std::string>("content");
  }
}

void Detokenizer::add_step(Fields step) {
  const std::string type = step.required<std::string>("type");
  if (type == "Sequence") {
    for (const Fields& part : step.objects("decoders")) add_step(part);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(bytes_joined);
  } else if (type == "ByteFallback") {
    steps_.emplace_back(bytes_decoded);
  } else if (type == "Fuse") {
    steps_.emplace_back([](const Pieces& pieces) { return Pieces{joined(pieces)}; });
  } else if (type == "Strip") {
    add_strip(step);
  } else if (type == "Metaspace") {
    add_metaspace(step);
  } else if (type == "WordPiece") {
    add_word_piece(step);
  } else if (type == "Replace") {
    const Pattern pattern(expression_of(step), step.where() + ": " + step.pointer());
    steps_.emplace_back([pattern, with = inserted_text(step, "content")](Pieces pieces) {
      for (std::string& piece : pieces) {
        std::string changed;
        pattern.split(piece, [&](std::string_view part, bool matched) {
          changed += matched ? std::string_view(with) : part;
        });
        piece = std::move(changed);
      }
      return pieces;
    });
  } else {
    step.fail("type", "'" + type +
                          "' is not supported; known: Sequence, ByteLevel, ByteFallback, Fuse, "
                          "Strip, Metaspace, WordPiece and Replace");
  }
}

void Detokenizer::add_strip(Fields& step) {
  const auto content = step.required<std::string>("content");
  const int at_begin = step.optional<int>("start", 0), at_end = step.optional<int>("stop", 0);
  steps_.emplace_back([=](Pieces pieces) {
    for (std::string& piece : pieces) {
      for (int i = 0; i < at_begin && piece.starts_with(content); ++i)
        piece.erase(0, content.size());
      for (int i = 0; i < at_end && piece.ends_with(content); ++i)
        piece.erase(piece.size() - content.size());
    }
    return pieces;
  });
}

// Replaces the visible sign by a blank again. In the first token the sign is removed if the
// tokenizer puts one before a text.
void Detokenizer::add_metaspace(Fields& step) {
  const std::string sign =
      step.has("replacement") ? inserted_text(step, "replacement") : "\xE2\x96\x81";
  const bool prefix = step.optional<bool>("add_prefix_space", true);
  const bool prepends =
      step.optional<std::string>("prepend_scheme", prefix ? "always" : "never") != "never";
  steps_.emplace_back([=](Pieces pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      replace_all(pieces[i], sign, i == 0 && prepends ? "" : " ");
    return pieces;
  });
}

void Detokenizer::add_word_piece(Fields& step) {
  const auto prefix = step.optional<std::string>("prefix", "##");
  const bool cleans = step.optional<bool>("cleanup", true);
  steps_.emplace_back([=](Pieces pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && !prefix.empty() && pieces[i].starts_with(prefix))
        pieces[i].erase(0, prefix.size());
      else if (i > 0)
        pieces[i].insert(0, 1, ' ');
      if (cleans) clean_up(pieces[i]);
    }
    return pieces;
  });
}

// Reads the special tokens that a template puts before its first sequence.
void Detokenizer::read_before_text(Fields step) {
  const std::string type = step.required<std::string>("type");
  if (type == "Sequence") {
    for (const Fields& part : step.objects("processors")) read_before_text(part);
    return;
  }
  if (type != "TemplateProcessing") return;
  Fields tokens = step.object("special_tokens");
  for (Fields& piece : step.objects("single")) {
    if (!piece.has("SpecialToken")) return;
    Fields token = tokens.object(piece.object("SpecialToken").required<std::string>("id"));
    for (const int number : token.required<std::vector<int>>("ids")) before_text_.push_back(number);
  }
}

std::string Detokenizer::text(std::span<const std::int32_t> tokens) const {
  if (of_bytes_) {
    std::string bytes;
    for (const std::int32_t token : tokens)
      if (token >= 0 && token < 256) bytes += static_cast<char>(token);
    return with_valid_utf8(bytes);
  }
  Pieces pieces;
  for (const std::int32_t token : tokens)
    if (const auto found = texts_.find(token); found != texts_.end())
      pieces.push_back(found->second);
  if (!has_decoder_) return joined(pieces, " ");
  for (const Step& step : steps_) pieces = step(std::move(pieces));
  return joined(pieces);
}

}  // namespace meshwright::exec
