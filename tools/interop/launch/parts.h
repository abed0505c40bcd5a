// What the launchers share.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/launch/launch.h"

namespace meshwright {

using Words = std::vector<std::string>;

// What starts `words` on a host; launchers of frameworks are told the hosts in their own words.
enum class Starter : std::uint8_t { torchrun, accelerate, deepspeed, plain };
Starter starter_of(const Launch& launch);

// How a host knows its place, as expressions of the shell: "\"$SLURM_NODEID\"".
struct HostExpressions {
  std::string rank, address, port;
};
// The starter with what it is told of the hosts, in the words of the shell (quoted as they stand).
// torchrun is not among them: it meets at an endpoint.
Words start_on_host(const Launch& launch, const HostExpressions& place);
// The program and its arguments, quoted.
Words quoted_words(const Launch& launch);

// The target's variables, and those of the machine's network where there are several hosts.
std::map<std::string, std::string> environment_of(const Launch& launch);
std::string exports(const std::map<std::string, std::string>& environment);

// Words that are quoted already as one command, an argument a line.
std::string command_text(const Words& words);

// Network cards of an AWS machine that speak EFA; 0: none, or not a machine of AWS's.
int efa_cards(std::string_view machine);
bool is_aws_machine(std::string_view machine);

std::string slurm_script(const Launch& launch);
std::string torchrun_script(const Launch& launch);
std::string mpirun_script(const Launch& launch);
std::string train_job(const Launch& launch);
std::string pytorch_job(const Launch& launch);

}  // namespace meshwright
