// Derives the machines and clusters that a job may use from what it says about its cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/job/job.h"

namespace meshwright::sim {

// Return the facts about a machine on which the rules of a job depend. The computer itself,
// `local`, counts as a CPU computer with an unknown number of cores until `meshwright calibrate`
// has measured it.
MachineFacts machine_facts(const std::string& machine);
MachineFacts facts_of(const Machine& machine);

// Loads the profile of a machine by its name. A program that has its own profile of `local` passes
// its own loader.
using MachineLoader = std::function<Machine(const std::string& name)>;
// Loads the profile of a known machine. Throws InputError for `local` if this computer has not been
// measured.
Machine load_known_machine(const std::string& name);

Cluster make_cluster(const ClusterRequest& request, const Machine& machine, int count);
Cluster make_cluster(const ClusterRequest& request, const std::string& machine, int count);

// Return the machines and the host counts that the planner may choose from. If the job names none,
// these are all known machines except `local`, and the powers of two from 1 to
// `largest_automatic_count`.
constexpr int largest_automatic_count = 16;
std::vector<std::string> machines_of(const ClusterRequest& request);
std::vector<int> counts_of(const ClusterRequest& request);

}  // namespace meshwright::sim
