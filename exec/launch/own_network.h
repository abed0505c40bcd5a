// Gives the ranks of one computer a network of their own. They and mpirun reach each other over its
// loopback interface, and nobody else reaches a port that they open.
#pragma once

namespace meshwright::exec {

// Moves the calling process, which must have one thread, into a new network namespace (and, without
// root's rights, into a user namespace of the same user). It uses only calls that are safe between
// fork and exec. If it returns false, the process may be partly inside the namespaces and should
// end.
bool enter_own_network();

// Returns whether enter_own_network() works on this system, by trying it in a child process.
bool own_network_allowed();

}  // namespace meshwright::exec
