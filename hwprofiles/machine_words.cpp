#include "hwprofiles/machine_words.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <tuple>

#include "hwprofiles/counted_words.h"
#include "hwprofiles/load.h"
#include "hwprofiles/unprofiled.h"
#include "models/core/error.h"
#include "models/core/letters.h"

namespace meshwright::hwprofiles {

namespace {

// Returns whether the machine is an instance of EC2. Only their names have a dot.
bool is_on_aws(const std::string& machine) { return machine.find('.') != std::string::npos; }

// Returns the machine whose name or alias is the words, in any case and with other signs between
// letters. Returns all instances of EC2 for "aws". Otherwise returns none.
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
  // A family is the name up to a dot or a dash: p5.48xlarge is of p5, and p5e.48xlarge of p5e. The
  // dash of a name that begins with "u-" does not count.
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

// Returns the letters and digits of words for a GPU, without vendor and kind of memory, as in the
// names of profiles: "h10080gb" for "NVIDIA H100 80GB HBM3" and for "H100 80G".
std::string gpu_letters(const std::string& words) {
  std::string wanted = letters_of(words);
  for (const std::string_view vendor : {"nvidia", "tesla", "geforce"})
    if (wanted.starts_with(vendor)) wanted.erase(0, vendor.size());
  for (const std::string_view end : {"hbm3e", "hbm2e", "hbm3", "hbm2"})
    if (wanted.ends_with(end)) wanted.resize(wanted.size() - end.size());
  // The form may follow the memory, as in "A100 40GB SXM4". It is dropped there, because few
  // profiles' names have it behind.
  for (const std::string_view end : {"gbsxm", "gbsxm2", "gbsxm3", "gbsxm4", "gbsxm5"})
    if (wanted.ends_with(end)) wanted.resize(wanted.size() - end.size() + 2);
  const bool has_short_unit = wanted.size() > 3 && wanted.ends_with('g') &&
                              std::isdigit(static_cast<unsigned char>(wanted[wanted.size() - 2])) &&
                              std::isdigit(static_cast<unsigned char>(wanted[wanted.size() - 3]));
  if (has_short_unit && wanted != "a10g") wanted += 'b';
  return wanted;
}

// Returns whether the words mean a GPU: all of its name, or the first part of it and perhaps
// another part, such as its memory. "a100-80gb" and "a10080gb" are A100-SXM4-80GB, "h100" is every
// H100, but "a10" is A10G and not A100.
bool means(const std::string& words, const std::string& gpu) {
  const std::string wanted = gpu_letters(words);
  const std::string whole_name = letters_of(gpu);
  if (wanted.empty() || wanted == whole_name) return !wanted.empty();
  const std::string first =
      gpu.starts_with("RTX") ? "rtxpro6000" : letters_of(gpu.substr(0, gpu.find('-')));
  if (!wanted.starts_with(first)) return wanted == "a10" && first == "a10g";
  const std::string rest = wanted.substr(first.size());
  const std::string of_gpu = whole_name.substr(first.size());
  if (rest.empty() || rest == "s") return true;
  return of_gpu == rest || of_gpu.ends_with(rest) || of_gpu.starts_with(rest) ||
         (std::isdigit(static_cast<unsigned char>(rest.back())) != 0 &&
          of_gpu.ends_with(rest + "gb"));
}

// Returns whether the machine has the GPU that the words mean. The name of a machine hgx-... says
// its GPU, because its profile may use that of a similar GPU: hgx-h800 has H800.
bool has_gpu(const Machine& machine, const std::string& words) {
  constexpr std::string_view board = "hgx-";
  if (machine.name.starts_with(board)) return means(words, machine.name.substr(board.size()));
  return means(words, machine.gpu.name);
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

namespace {

std::vector<Machine> machines_with(const std::string& gpu, const std::vector<std::string>& all) {
  std::vector<Machine> found;
  for (const std::string& name : all)
    if (Machine machine = load_machine(name); has_gpu(machine, gpu))
      found.push_back(std::move(machine));
  return found;
}

// Returns the machine for hosts with `of.number` GPUs each. Among the machines with at least this
// number, one with a price comes first, then the one with the fewest GPUs. Throws InputError if
// none has that many.
MachineWords hosts_with(const std::vector<Machine>& machines, const CountedWords& of,
                        const std::string& words) {
  const auto enough = [&](const Machine& machine) { return machine.gpus >= of.number; };
  std::vector<Machine> large;
  std::ranges::copy_if(machines, std::back_inserter(large), enough);
  if (large.empty())
    throw InputError(fmt::format("'{}': no machine has {} such GPUs; the largest has {}", words,
                                 of.number, std::ranges::max(machines, {}, &Machine::gpus).gpus));
  const Machine& machine = best_for(large, of.number);
  MachineWords meant;
  meant.machines = {machine.name};
  meant.hosts = of.hosts;
  if (of.number < machine.gpus) meant.processes_per_host = of.number;
  meant.note =
      fmt::format("'{}' means {} x {} with {} GPUs each", words, of.hosts, machine.name, of.number);
  return meant;
}

// Returns the machine (best_for) and the hosts that hold `number` GPUs in all.
MachineWords gpus_of(const std::vector<Machine>& with_gpu, int number, const std::string& words) {
  MachineWords meant;
  const Machine& machine = best_for(with_gpu, number);
  meant.machines = {machine.name};
  meant.hosts = hosts_for(number, machine);
  if (number < machine.gpus) meant.processes_per_host = number;
  const std::string others = names_of(with_gpu, machine.name);
  meant.note = fmt::format(
      "'{}' means {} x {}{}{}", words, meant.hosts, machine.name,
      meant.processes_per_host > 0 ? fmt::format(" ({} of {} GPUs)", number, machine.gpus)
      : number % machine.gpus > 0  ? fmt::format(" ({} GPUs)", meant.hosts * machine.gpus)
                                   : "",
      others.empty() ? "" : fmt::format("; also with such GPUs: {}", others));
  return meant;
}

// Returns the machines that a name, a group or the plural of a group means, or none.
std::vector<std::string> named_or_group(const std::string& name,
                                        const std::vector<std::string>& all) {
  std::vector<std::string> found = named(name, all);
  if (found.empty()) found = in_family(name, all);
  if (found.empty() && name.ends_with('s')) found = in_family(name.substr(0, name.size() - 1), all);
  return found;
}

}  // namespace

MachineWords machines_meant(const std::string& words) {
  std::vector<std::string> all = list_machines();
  MachineWords meant;
  const std::string without_ml = words.starts_with("ml.") ? words.substr(3) : words;
  if (without_ml == "local") return meant;
  if (std::ranges::find(all, without_ml) != all.end()) {
    meant.machines = {without_ml};
    return meant;
  }
  std::erase(all, "local");
  const auto is_name = [&](const std::string& word) { return !named(word, all).empty(); };
  if (words.find_first_of("+&") != std::string::npos)
    throw InputError(fmt::format(
        "'{}': a job runs on one kind of machine; a list chooses between several", words));
  if (words.empty()) return meant;
  refuse_other_cloud(words, words, "");
  const CountedWords of =
      is_name(without_ml) ? CountedWords{.name = without_ml} : counted_words(without_ml, is_name);
  refuse_other_cloud(words, of.name, of.cloud);
  if (!of.has_number()) meant.machines = named(of.name, all);
  std::vector<Machine> with_gpu;
  if (meant.machines.empty()) with_gpu = machines_with(of.name, all);
  if (!with_gpu.empty() && of.hosts > 0 && of.number > 0) return hosts_with(with_gpu, of, words);
  if (!with_gpu.empty() && of.number > 0) return gpus_of(with_gpu, of.number, words);
  if (!with_gpu.empty()) {
    for (const Machine& machine : with_gpu) meant.machines.push_back(machine.name);
    meant.hosts = of.hosts;
    meant.note = fmt::format("'{}' means {}{}", words,
                             of.hosts > 0 ? fmt::format("{} hosts of ", of.hosts) : "",
                             text_of_names(meant.machines));
    return meant;
  }
  if (meant.machines.empty()) meant.machines = named_or_group(of.name, all);
  if (meant.machines.empty()) {
    refuse_unprofiled(words, of.name, of.has_number());
    return meant;
  }
  if (of.hosts > 0 && of.number > 0)
    throw InputError(fmt::format("'{}': {} has a number of GPUs of its own; write {} x {}", words,
                                 of.name, of.hosts, of.name));
  meant.hosts = of.number + of.hosts;
  if (letters_of(of.name) != letters_of(meant.machines.front()) || meant.hosts > 0)
    meant.note = fmt::format("'{}' means {}{}", words,
                             meant.hosts > 0 ? fmt::format("{} x ", meant.hosts) : "",
                             text_of_names(meant.machines));
  return meant;
}

}  // namespace meshwright::hwprofiles
