// Evaluates the arithmetic expressions $(( )) of shell scripts.
#include <cctype>

#include "tools/interop/shell/variables.h"

namespace meshwright::interop {

namespace {

class Arithmetic {
 public:
  explicit Arithmetic(const std::string& text) : text_(text) {}
  std::optional<std::int64_t> value() {
    const std::int64_t result = choice();
    skip();
    if (!good_ || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  static constexpr std::int64_t most = std::int64_t{1} << 52;
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t bounded(long double value) {
    if (value > most || value < -most) good_ = false;
    return good_ ? static_cast<std::int64_t>(value) : 0;
  }
  bool take(std::string_view word) {
    skip();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  std::int64_t choice() {
    const std::int64_t condition = either();
    if (!take('?')) return condition;
    const std::int64_t first = either();
    good_ = good_ && take(':');
    const std::int64_t second = either();
    return condition != 0 ? first : second;
  }
  std::int64_t either() {
    std::int64_t left = both();
    while (good_ && take("||")) {
      const std::int64_t right = both();
      left = left != 0 || right != 0 ? 1 : 0;
    }
    return left;
  }
  std::int64_t both() {
    std::int64_t left = compared();
    while (good_ && take("&&")) {
      const std::int64_t right = compared();
      left = left != 0 && right != 0 ? 1 : 0;
    }
    return left;
  }
  std::int64_t compared() {
    const std::int64_t left = sum();
    if (take("==")) return left == sum() ? 1 : 0;
    if (take("!=")) return left != sum() ? 1 : 0;
    if (take("<=")) return left <= sum() ? 1 : 0;
    if (take(">=")) return left >= sum() ? 1 : 0;
    if (take('<')) return left < sum() ? 1 : 0;
    if (take('>')) return left > sum() ? 1 : 0;
    return left;
  }
  std::int64_t sum() {
    std::int64_t left = product();
    while (good_) {
      if (take('+'))
        left = bounded(static_cast<long double>(left) + static_cast<long double>(product()));
      else if (take('-'))
        left = bounded(static_cast<long double>(left) - static_cast<long double>(product()));
      else
        break;
    }
    return left;
  }
  std::int64_t product() {
    std::int64_t left = factor();
    while (good_) {
      const char sign = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : ' ';
      if (sign == ' ') break;
      const std::int64_t right = factor();
      if (sign != '*' && right == 0) good_ = false;
      if (!good_) break;
      left = sign == '*' ? bounded(static_cast<long double>(left) * static_cast<long double>(right))
             : sign == '/' ? left / right
                           : left % right;
    }
    return left;
  }
  std::int64_t factor() {
    if (++depth_ > 64) good_ = false;
    if (!good_) return 0;
    std::int64_t value = 0;
    if (take('(')) {
      value = choice();
      good_ = good_ && take(')');
    } else if (take('!')) {
      value = factor() == 0 ? 1 : 0;
    } else if (take('-')) {
      value = -factor();
    } else {
      skip();
      const std::size_t begin = at_;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
             at_ - begin < 15)
        value = 10 * value + (text_[at_++] - '0');
      good_ = good_ && at_ > begin;
    }
    --depth_;
    return value;
  }
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(const std::string& text) {
  return Arithmetic(text).value();
}

}  // namespace meshwright::interop
