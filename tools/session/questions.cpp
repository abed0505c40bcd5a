#include "tools/session/questions.h"

#include <fmt/format.h>

#include "hwprofiles/prices.h"
#include "models/compiler/frameworks/framework.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "models/core/written_number.h"
#include "tools/session/dates.h"

namespace meshwright::session {

namespace {

constexpr double seconds_per_day = 86400;

// Tells whether the job file or --set sets a key. A file that cannot be read sets none. Its error
// is reported when the job is read.
class Said {
 public:
  explicit Said(const JobRequest& request) : set_(request.set) {
    try {
      job_ =
          json::parse(request.text ? *request.text : read_file(request.file), nullptr, false, true);
    } catch (const InputError&) {  // reported when the job is read
    }
  }
  bool operator()(const std::string& section, const std::string& key) const {
    for (const std::string& each : set_)
      if (each.starts_with(section + "." + key + "=")) return true;
    return job_.is_object() && job_.contains(section) && job_[section].is_object() &&
           job_[section].contains(key);
  }

 private:
  const std::vector<std::string>& set_;
  json job_;
};

double budget_of(const std::string& text) {
  if (const auto usd = written_number(text, NumberKind::usd); usd && *usd > 0) return *usd;
  throw InputError("--budget: " + wrong_number(text, NumberKind::usd));
}

}  // namespace

double seconds_until(const std::string& text, int today) {
  std::optional<int> day;
  try {
    day = date_meant(text, today);
  } catch (const InputError& error) {
    throw InputError(std::string("--by: ") + error.what());
  }
  if (day) {
    if (*day > today) return (*day - today) * seconds_per_day;
    throw InputError("--by: " + text + " is not after today");
  }
  // A number alone could be days or hours.
  const bool has_unit = text.find_first_not_of("0123456789.") != std::string::npos;
  const auto seconds = written_number(text, NumberKind::seconds);
  if (has_unit && seconds && *seconds > 0) return *seconds;
  throw InputError("--by: expected a date such as 2027-01-31, or " +
                   wrong_number(text, NumberKind::seconds).substr(std::string("expected ").size()));
}

std::string deadline_note(const std::string& by, int today) {
  if (by.empty() || day_of(by)) return "";
  if (const auto day = date_meant(by, today))
    return fmt::format("--by '{}' means {}, {} day{} from now", by, show_date(*day), *day - today,
                       *day - today == 1 ? "" : "s");
  return "";
}

std::vector<std::string> question_overrides(const JobRequest& request) {
  std::vector<std::string> overrides;
  if (!request.framework.empty()) {
    framework_of(request.framework);  // throws for an unknown one, without the job's file
    overrides.push_back("training.framework=" + request.framework);
  }
  if (request.by.empty() && request.budget.empty()) return overrides;
  if (!request.by.empty())
    overrides.push_back(
        fmt::format("objective.deadline_s={}", seconds_until(request.by, request.today)));
  if (!request.budget.empty())
    overrides.push_back(fmt::format("objective.budget_usd={}", budget_of(request.budget)));
  const Said says(request);
  if (says("objective", "minimize")) return overrides;
  if (!says("training", "steps") && !says("objective", "tokens"))
    overrides.push_back("objective.minimize=tokens");
  else if (!request.by.empty())
    overrides.push_back("objective.minimize=usd");
  return overrides;
}

}  // namespace meshwright::session
