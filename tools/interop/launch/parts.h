// Declares the writers of launch files and the functions that they share.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/launch/launch.h"

namespace meshwright::interop {

using Words = std::vector<std::string>;

// The kind of program that starts `words` on a host. accelerate and deepspeed have their own
// options for the hosts.
enum class Starter : std::uint8_t { torchrun, accelerate, deepspeed, plain };
Starter starter_of(const Launch& launch);

// Expressions of the shell by which a host knows its rank and the first host's address and port,
// with their quotes: "\"$SLURM_NODEID\"".
struct HostExpressions {
  std::string rank, address, port;
};
// Returns the starter with its options for the hosts, as words of the shell that are already
// quoted. Only accelerate and deepspeed get options here. Those of torchrun differ between
// launchers, which write them.
Words start_on_host(const Launch& launch, const HostExpressions& place);
// Returns the program and its arguments, quoted for the shell.
Words quoted_words(const Launch& launch);

// Returns the environment variables of the launch and, for several hosts with EFA network cards,
// those that EFA needs.
std::map<std::string, std::string> environment_of(const Launch& launch);
std::string exports(const std::map<std::string, std::string>& environment);

// Joins words that are already quoted to one command. Each later word that begins with -- or starts
// a program (torchrun, bash, -m, a .py file) is on a new line.
std::string command_text(const Words& words);

// Returns the number of EFA network cards of an AWS machine. Returns 0 if it has none, is unknown
// or is not a machine of AWS.
int efa_cards(std::string_view machine);
bool is_aws_machine(std::string_view machine);

std::string slurm_script(const Launch& launch);
std::string torchrun_script(const Launch& launch);
std::string mpirun_script(const Launch& launch);
std::string train_job(const Launch& launch);
std::string pytorch_job(const Launch& launch);

}  // namespace meshwright::interop
