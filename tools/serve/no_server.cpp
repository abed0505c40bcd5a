// Replaces the server in a build without the HTTP library.
#include "models/core/error.h"
#include "tools/serve/server.h"

namespace meshwright::tools {

void serve(const Serving& /*serving*/) {
  throw InputError(
      "serve: this build of meshwright plans and simulates; the Debian package, or a build from "
      "source, serves");
}

}  // namespace meshwright::tools
