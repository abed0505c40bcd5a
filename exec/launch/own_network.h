// A network of their own for the ranks of one computer: they and mpirun reach each other over its
// loopback interface, and nobody else reaches a port that they open.
#pragma once

namespace meshwright {

// Moves the calling process, which must have one thread, into a new network namespace (and, without
// root's rights, into a user namespace of the same user). Only calls that are safe between fork and
// exec. After `false` the process may be halfway in: it should end.
bool enter_own_network();

// Returns whether the system allows it. A process of its own tries it.
bool own_network_allowed();

}  // namespace meshwright
