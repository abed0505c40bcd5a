#include "hwprofiles/machine_words.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <optional>
#include <tuple>

#include "hwprofiles/load.h"
#include "models/core/error.h"

namespace meshwright::hwprofiles {

namespace {

// Returns the letters and digits of a name, in small letters: "DGX A100 40 GB" is "dgxa10040gb".
std::string letters_of(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string small(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// EC2's names of instances have a dot, the names of other machines have none.
bool is_on_aws(const std::string& machine) { return machine.find('.') != std::string::npos; }

// An instance of another cloud, by the beginning of its name in letters and digits, and the machine
// with a profile that is nearest to it: the same GPUs, as many on a host.
struct OtherCloud {
  std::string_view name, cloud, nearest;
};
// From the clouds' own lists of instances (cloud.google.com/compute/docs/gpus,
// learn.microsoft.com/azure/virtual-machines/sizes, docs.oracle.com, lambda.ai), as of 2026.
constexpr OtherCloud other_clouds[] = {{"a2highgpu", "Google Cloud", "p4d.24xlarge"},
                                       {"a2megagpu", "Google Cloud", "dgx-a100-40gb"},
                                       {"a2ultragpu", "Google Cloud", "p4de.24xlarge"},
                                       {"a3highgpu", "Google Cloud", "p5.48xlarge"},
                                       {"a3megagpu", "Google Cloud", "p5.48xlarge"},
                                       {"a3edgegpu", "Google Cloud", "p5.48xlarge"},
                                       {"a3ultragpu", "Google Cloud", "p5en.48xlarge"},
                                       {"a4highgpu", "Google Cloud", "p6-b200.48xlarge"},
                                       {"a4xhighgpu", "Google Cloud", "gb200-nvl72"},
                                       {"g2standard", "Google Cloud", "g6.48xlarge"},
                                       {"nd96isrh100v5", "Azure", "p5.48xlarge"},
                                       {"nd96isrh200v5", "Azure", "p5en.48xlarge"},
                                       {"nd96asrv4", "Azure", "p4d.24xlarge"},
                                       {"nd96asra100v4", "Azure", "p4d.24xlarge"},
                                       {"nd96amsra100v4", "Azure", "p4de.24xlarge"},
                                       {"nd40rsv2", "Azure", "p3dn.24xlarge"},
                                       {"nd128isrndrgb200v6", "Azure", "gb200-nvl72"},
                                       {"nd128isrgb300v6", "Azure", "gb300-nvl72"},
                                       {"nc40adsh100v5", "Azure", "p5.4xlarge"},
                                       {"nc80adish100v5", "Azure", "p5.4xlarge"},
                                       {"nc24adsa100v4", "Azure", "p4de.24xlarge"},
                                       {"nc96adsa100v4", "Azure", "p4de.24xlarge"},
                                       {"bmgpuh1008", "Oracle Cloud", "p5.48xlarge"},
                                       {"bmgpuh2008", "Oracle Cloud", "p5en.48xlarge"},
                                       {"bmgpub2008", "Oracle Cloud", "p6-b200.48xlarge"},
                                       {"bmgpua100v28", "Oracle Cloud", "p4de.24xlarge"},
                                       {"bmgpu48", "Oracle Cloud", "p4d.24xlarge"},
                                       {"gpu8xh100sxm5", "Lambda", "p5.48xlarge"},
                                       {"gpu8xa10080gbsxm4", "Lambda", "p4de.24xlarge"},
                                       {"gpu8xa100", "Lambda", "p4d.24xlarge"},
                                       {"gpu8xb200", "Lambda", "p6-b200.48xlarge"}};

void refuse_other_cloud(const std::string& words) {
  std::string name = letters_of(words);
  if (name.starts_with("standard")) name.erase(0, 8);
  for (const OtherCloud& row : other_clouds) {
    if (!name.starts_with(row.name)) continue;
    const Machine machine = load_machine(std::string(row.nearest));
    throw InputError(
        fmt::format("'{}' is an instance of {}, which has no profile here; the nearest machine is "
                    "{} ({} x {}), "
                    "whose network and prices are its own",
                    words, row.cloud, row.nearest, machine.gpus, machine.gpu.name));
  }
}

// A number before or after a name, with an x or a blank between them: "8xH100", "A100 x 16".
struct Counted {
  int number = 0;  // 0: none
  std::string name;
};

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  const auto begin =
      std::ranges::find_if(text, [](unsigned char c) { return std::isspace(c) == 0; });
  text.erase(text.begin(), begin);
  return text;
}

std::optional<int> whole(std::string_view digits) {
  if (digits.empty() || digits.size() > 6 ||
      digits.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  return std::stoi(std::string(digits));
}

Counted counted(std::string text) {
  for (std::size_t at; (at = text.find("×")) != std::string::npos;) text.replace(at, 2, "x");
  text = trimmed(text);
  // "8xH100", "8 x H100", "8*H100", "8 H100"
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0 && digits < text.size()) {
    std::string rest = trimmed(text.substr(digits));
    const bool has_sign = rest.size() > 1 && (small(rest.substr(0, 1)) == "x" || rest[0] == '*');
    const bool has_blank = std::isspace(static_cast<unsigned char>(text[digits])) != 0;
    if (has_sign) rest = trimmed(rest.substr(1));
    if (has_sign || has_blank)
      if (const auto number = whole(text.substr(0, digits))) return {*number, rest};
  }
  // "H100x8", "A100-80GB x 16", "H100:8"
  const std::size_t last = text.find_last_not_of("0123456789");
  if (last != std::string::npos && last + 1 < text.size() && last > 0 &&
      (small(text.substr(last, 1)) == "x" || text[last] == '*' || text[last] == ':' ||
       text[last] == ' ')) {
    std::string before = trimmed(text.substr(0, last));
    if (text[last] == ' ' &&
        (before.ends_with('x') || before.ends_with('X') || before.ends_with('*')))
      before = trimmed(before.substr(0, before.size() - 1));
    else if (text[last] == ' ')
      return {0, text};  // "dgx 2"
    if (const auto number = whole(text.substr(last + 1))) return {*number, before};
  }
  return {0, text};
}

// Returns the machines whose names are the words, in any case and with other signs between letters.
// If there are none, returns those whose names begin with them.
std::vector<std::string> named(const std::string& words, const std::vector<std::string>& known) {
  const std::string wanted = letters_of(words);
  std::vector<std::string> found;
  if (wanted.size() < 2) return found;
  for (const std::string& name : known)
    if (letters_of(name) == wanted) return {name};
  for (const std::string& name : known)
    for (const std::string& alias : load_machine(name).aliases)
      if (letters_of(alias) == wanted) return {name};
  if (wanted == "aws" || wanted == "ec2" || wanted == "amazon") {
    std::ranges::copy_if(known, std::back_inserter(found), is_on_aws);
    return found;
  }
  return found;
}

// Returns the machines of a family, or those whose names begin with the words.
std::vector<std::string> in_family(const std::string& words,
                                   const std::vector<std::string>& known) {
  const std::string wanted = letters_of(words);
  std::vector<std::string> found;
  if (wanted.size() < 2) return found;
  // A family ends where its name does: p5 is p5.48xlarge, and p5e.48xlarge is of another one.
  for (const std::string& name : known) {
    const std::string family =
        name.substr(0, name.find_first_of(".-", name.starts_with("u-") ? 2 : 0));
    if (letters_of(family) == wanted) found.push_back(name);
  }
  if (!found.empty()) return found;
  for (const std::string& name : known)
    if (letters_of(name).starts_with(wanted)) found.push_back(name);
  return found;
}

// Returns whether the words mean a GPU: all of its name, or the first part of it and perhaps its
// memory. "a100-80gb" and "a10080gb" are A100-SXM4-80GB, "h100" is every H100, but "a10" is not
// A100.
bool means(const std::string& words, const std::string& gpu) {
  std::string wanted = letters_of(words);
  for (const std::string_view vendor : {"nvidia", "tesla", "geforce"})
    if (wanted.starts_with(vendor)) wanted.erase(0, vendor.size());
  const std::string whole_name = letters_of(gpu);
  if (wanted.empty() || wanted == whole_name) return !wanted.empty();
  const std::string first =
      gpu.starts_with("RTX") ? "rtxpro6000" : letters_of(gpu.substr(0, gpu.find('-')));
  if (!wanted.starts_with(first)) return wanted == "a10" && first == "a10g";
  const std::string rest = wanted.substr(first.size());
  const std::string of_gpu = whole_name.substr(first.size());
  if (rest.empty()) return true;
  return of_gpu == rest || of_gpu.ends_with(rest) || of_gpu.starts_with(rest) ||
         (std::isdigit(static_cast<unsigned char>(rest.back())) != 0 &&
          of_gpu.ends_with(rest + "gb"));
}

bool has_price(const Machine& machine) { return !machine.prices.empty(); }

int hosts_for(int gpus, const Machine& machine) { return (gpus + machine.gpus - 1) / machine.gpus; }

// Returns the machine that holds `gpus` GPUs in the fewest hosts. Among equals, one that has a
// price comes first, and then the one with the fewest GPUs.
const Machine& best_for(const std::vector<Machine>& machines, int gpus) {
  return *std::ranges::min_element(machines, {}, [&](const Machine& machine) {
    return std::tuple(hosts_for(gpus, machine), !has_price(machine), machine.gpus);
  });
}

std::string text_of_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  return names.size() > most
             ? fmt::format("{} machines, {} to {}", names.size(), names.front(), names.back())
             : list_of(names, "and");
}

std::string names_of(const std::vector<Machine>& machines, const std::string& but) {
  std::vector<std::string> names;
  for (const Machine& machine : machines)
    if (machine.name != but) names.push_back(machine.name);
  return list_of(names, "and");
}

}  // namespace

MachineWords machines_meant(const std::string& words) {
  const std::vector<std::string> known = list_machines();
  MachineWords meant;
  const std::string without_ml = words.starts_with("ml.") ? words.substr(3) : words;
  if (without_ml == "local") return meant;
  if (std::ranges::find(known, without_ml) != known.end()) {
    meant.machines = {without_ml};
    return meant;
  }
  refuse_other_cloud(words);
  const Counted of = counted(without_ml);
  std::vector<std::string> all = known;
  std::erase(all, "local");
  std::vector<Machine> with_gpu;
  if (of.number == 0) meant.machines = named(of.name, all);
  if (meant.machines.empty())
    for (const std::string& name : all)
      if (Machine machine = load_machine(name); means(of.name, machine.gpu.name))
        with_gpu.push_back(std::move(machine));
  if (with_gpu.empty()) {
    if (meant.machines.empty()) meant.machines = named(of.name, all);
    if (meant.machines.empty()) meant.machines = in_family(of.name, all);
    if (meant.machines.empty()) return meant;
    meant.hosts = of.number;
    if (letters_of(of.name) != letters_of(meant.machines.front()) || of.number > 0)
      meant.note = fmt::format("'{}' means {}{}", words,
                               of.number > 0 ? fmt::format("{} x ", of.number) : "",
                               text_of_names(meant.machines));
    return meant;
  }
  if (of.number == 0) {
    for (const Machine& machine : with_gpu) meant.machines.push_back(machine.name);
    meant.note = fmt::format("'{}' means {}", words, text_of_names(meant.machines));
    return meant;
  }
  const Machine& machine = best_for(with_gpu, of.number);
  meant.machines = {machine.name};
  meant.hosts = hosts_for(of.number, machine);
  if (of.number < machine.gpus) meant.processes_per_host = of.number;
  const std::string others = names_of(with_gpu, machine.name);
  meant.note = fmt::format(
      "'{}' means {} x {}{}{}", words, meant.hosts, machine.name,
      meant.processes_per_host > 0   ? fmt::format(" ({} of {} GPUs)", of.number, machine.gpus)
      : of.number % machine.gpus > 0 ? fmt::format(" ({} GPUs)", meant.hosts * machine.gpus)
                                     : "",
      others.empty() ? "" : fmt::format("; also with such GPUs: {}", others));
  return meant;
}

}  // namespace meshwright::hwprofiles
