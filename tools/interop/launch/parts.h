// Declares what the launchers share.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/launch/launch.h"

namespace meshwright::interop {

using Words = std::vector<std::string>;

// The program that starts `words` on a host. The launchers of frameworks have their own options for
// the hosts.
enum class Starter : std::uint8_t { torchrun, accelerate, deepspeed, plain };
Starter starter_of(const Launch& launch);

// Expressions of the shell by which a host knows its rank and the first host's address and port:
// "\"$SLURM_NODEID\"".
struct HostExpressions {
  std::string rank, address, port;
};
// Returns the starter with its options for the hosts, as words of the shell that are already
// quoted. For torchrun it adds no options, because the launchers write them with a common endpoint.
Words start_on_host(const Launch& launch, const HostExpressions& place);
// Returns the program and its arguments, quoted for the shell.
Words quoted_words(const Launch& launch);

// Returns the environment variables of the target and, for several hosts, those that the machine's
// network needs.
std::map<std::string, std::string> environment_of(const Launch& launch);
std::string exports(const std::map<std::string, std::string>& environment);

// Joins words that are already quoted to one command, with a new line before each option and each
// program.
std::string command_text(const Words& words);

// Returns the number of EFA network cards of an AWS machine. Returns 0 if it has none or is not a
// machine of AWS.
int efa_cards(std::string_view machine);
bool is_aws_machine(std::string_view machine);

std::string slurm_script(const Launch& launch);
std::string torchrun_script(const Launch& launch);
std::string mpirun_script(const Launch& launch);
std::string train_job(const Launch& launch);
std::string pytorch_job(const Launch& launch);

}  // namespace meshwright::interop
