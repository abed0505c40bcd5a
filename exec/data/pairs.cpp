#include "exec/data/pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/data/json_lines.h"
#include "exec/data/tokenizer.h"
#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

struct TemplateText {
  std::string_view begin;                     // before the conversation
  std::string_view before_role, behind_role;  // around a turn's role
  std::string_view end;                       // after the content, and learned with it
  std::string_view behind;
  bool trims;  // whether blanks around the content are left out
  std::vector<std::string> tokens;
};

// Returns the text that a template adds to a conversation. Plain adds none. ChatML is as OpenAI
// described it and Qwen writes it, Llama 3 as in its model card.
const TemplateText& template_text(ChatTemplate which) {
  static const TemplateText texts[] = {
      {"", "", "", "", "", false, {}},
      {"", "<|im_start|>", "\n", "<|im_end|>", "\n", false, {"<|im_start|>", "<|im_end|>"}},
      {"<|begin_of_text|>",
       "<|start_header_id|>",
       "<|end_header_id|>\n\n",
       "<|eot_id|>",
       "",
       true,
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}}};
  return texts[static_cast<int>(which)];
}

// The blanks that Jinja's filter `trim` removes, which are those of Python.
constexpr std::string_view blanks[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",
                                       "\x1c",   "\x1d",   "\x1e",   "\x1f",   "\u0085", "\u00a0",
                                       "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                       "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                       "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

std::string_view trimmed(std::string_view text) {
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view blank : blanks) {
      if (text.starts_with(blank)) text.remove_prefix(blank.size()), found = true;
      if (text.ends_with(blank)) text.remove_suffix(blank.size()), found = true;
    }
  }
  return text;
}

struct Turn {
  std::string role, content;  // empty role: a text as it is
};

std::vector<Turn> turns_of(const std::string& line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object())
    throw InputError(
        "is no JSON object; a line is {\"prompt\": ..., \"completion\": ...}, {\"messages\": "
        "[...]} or {\"text\": ...}");
  if (object.contains("text")) {
    if (object.size() > 1)
      throw InputError("/text: is given next to other keys; keep only this one");
    return {{"", text_at(object, "text", "")}};
  }
  if (!object.contains("messages"))
    return {{"user", text_at(object, "prompt", "")},
            {"assistant", text_at(object, "completion", "")}};
  if (object.contains("prompt") || object.contains("completion"))
    throw InputError("/messages: is given beside a prompt or completion; keep one of them");
  const json& messages = object["messages"];
  if (!messages.is_array()) throw InputError("/messages: is no list");
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("/messages/{}", i);
    if (!messages[i].is_object()) throw InputError(where + ": is no object of role and content");
    turns.push_back({text_at(messages[i], "role", where), text_at(messages[i], "content", where)});
    const std::string& role = turns.back().role;
    if (role != "system" && role != "user" && role != "assistant")
      throw InputError(fmt::format("{}/role: '{}' is not known; known: system, user and assistant",
                                   where, role));
  }
  return turns;
}

}  // namespace

void PairFile::read(std::int64_t pair, std::span<std::int32_t> tokens,
                    std::span<char> counts) const {
  const auto begin = first_[pair];
  const auto end = first_[static_cast<std::size_t>(pair) + 1];
  std::ranges::fill(tokens, 0);
  std::ranges::fill(counts, char{0});
  std::copy(tokens_.begin() + begin, tokens_.begin() + end, tokens.begin());
  std::copy(counts_.begin() + begin, counts_.begin() + end, counts.begin());
}

std::span<const std::int32_t> PairFile::tokens_of(std::int64_t pair) const {
  const auto begin = first_[pair];
  const auto end = first_[static_cast<std::size_t>(pair) + 1];
  return {tokens_.data() + begin, static_cast<std::size_t>(end - begin)};
}

std::span<const char> PairFile::counts_of(std::int64_t pair) const {
  return {counts_.data() + first_[pair], tokens_of(pair).size()};
}

std::vector<std::int64_t> PairFile::places() const {
  std::vector<std::int64_t> places;
  for (std::size_t pair = 0; pair + 1 < first_.size(); ++pair)
    places.push_back(first_[pair + 1] - first_[pair] - 1);
  return places;
}

std::string PairFile::remark() const {
  std::string text;
  if (cut_ > 0)
    text = fmt::format(
        "{} of {} pairs are longer than {} tokens (sequence_length + 1) and are "
        "cut there (the longest has {})",
        cut_, lines_, length_, longest_);
  if (without_ > 0)
    text += fmt::format("{}{} of {} have no token to learn{} and are left out",
                        text.empty() ? "" : "; ", without_, lines_, cut_ > 0 ? " before that" : "");
  return text;
}

PairReader::PairReader(const PairText& text, std::int64_t window, std::int64_t vocabulary)
    : text_(text),
      window_(window),
      vocabulary_(vocabulary),
      tokenizer_(text.tokenizer.empty() ? std::make_unique<Tokenizer>()
                                        : std::make_unique<Tokenizer>(text.tokenizer)) {
  const std::string whose = text.tokenizer.empty() ? "single bytes" : text.tokenizer;
  for (const std::string& token : template_text(text.chat_template).tokens)
    if (tokenizer_->token(token) < 0)
      throw InputError(fmt::format(
          "data.template: {} has the token '{}', which is none of {}; use another template, or a "
          "tokenizer that has it",
          chat_template_names()[static_cast<int>(text.chat_template)], token, whose));
  if (text.end_token.empty()) return;
  end_ = tokenizer_->token(text.end_token);
  if (end_ < 0)
    throw InputError(
        fmt::format("data.end_token: '{}' is not a token of {}", text.end_token, whose));
}

PairReader::~PairReader() = default;

// Splits a line into parts. The assistant's text is learned, with the token that ends it, or the
// whole line if it is a plain text.
std::vector<PairReader::Part> PairReader::parts_of(const std::string& line) const {
  const TemplateText& text = template_text(text_.chat_template);
  std::vector<Part> parts;
  const auto part_of = [&](bool learned) -> Part& {
    const bool goes_on = !parts.empty() && parts.back().learned == learned && !parts.back().ends;
    return goes_on ? parts.back() : parts.emplace_back("", learned);
  };
  const auto add = [&](std::string_view more, bool learned) {
    if (!more.empty()) part_of(learned).text += more;
  };
  const std::vector<Turn> turns = turns_of(line);
  if (turns.size() == 1 && turns[0].role.empty()) {
    parts.push_back({turns[0].content, true, end_ >= 0});
    return parts;
  }
  add(text.begin, false);
  for (const Turn& turn : turns) {
    const bool learned = turn.role == "assistant";
    if (!text.before_role.empty()) {
      add(text.before_role, false);
      add(turn.role, false);
      add(text.behind_role, false);
    }
    add(text.trims ? trimmed(turn.content) : std::string_view(turn.content), learned);
    add(text.end, learned);
    add(text.behind, false);
    if (learned && end_ >= 0) part_of(true).ends = true;
  }
  return parts;
}

void PairReader::add(PairFile& file, const std::vector<Part>& parts) {
  std::vector<std::int32_t> tokens;
  std::vector<char> counts;
  Start start = Start::document;
  for (const Part& part : parts) {
    const auto append = [&](std::span<const std::int32_t> made) {
      tokens.insert(tokens.end(), made.begin(), made.end());
      counts.insert(counts.end(), made.size(), part.learned ? 1 : 0);
    };
    tokenizer_->encode(part.text, append, start);
    if (part.ends) append({&end_, 1});
    const bool token_ends =
        part.ends ||
        std::ranges::any_of(template_text(text_.chat_template).tokens,
                            [&](const std::string& token) { return part.text.ends_with(token); });
    start = token_ends ? Start::behind_token : Start::within;
  }
  check_in_vocabulary(tokens, vocabulary_);
  ++file.lines_;
  file.longest_ = std::max(file.longest_, std::ssize(tokens));
  if (tokens.size() > window_) {
    ++file.cut_;
    tokens.resize(window_);
    counts.resize(window_);
  }
  if (!counts.empty()) counts[0] = 0;  // there is nothing before it
  const auto counted = static_cast<int>(std::ranges::count(counts, char{1}));
  if (counted == 0) {
    ++file.without_;
    return;
  }
  file.tokens_.insert(file.tokens_.end(), tokens.begin(), tokens.end());
  file.counts_.insert(file.counts_.end(), counts.begin(), counts.end());
  file.first_.push_back(std::ssize(file.tokens_));
  file.counted_.push_back(counted);
}

PairFile PairReader::read(const std::string& path) {
  PairFile file;
  file.length_ = static_cast<std::int64_t>(window_);
  read_json_lines(path, "one pair", [&](const std::string& line) { add(file, parts_of(line)); });
  return file;
}

}  // namespace meshwright::exec
