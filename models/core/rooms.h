// Declares the layers of the source code as namespaces. A using-directive makes the names of the
// layers below visible in each of them. If a layer declares the same name itself, its own one is
// meant. `tests/check_layers` checks that the includes follow these layers too.
#pragma once

namespace meshwright {
// clang-format off
namespace core {}
namespace program { using namespace core; }
namespace hwprofiles { using namespace core; }
namespace architectures { using namespace program; using namespace hwprofiles; }
namespace compiler { using namespace architectures; }
namespace job { using namespace compiler; }
namespace sim { using namespace job; }
namespace exec { using namespace program; }
namespace interop { using namespace job; }
namespace session { using namespace sim; using namespace exec; using namespace interop; }
namespace tools { using namespace session; }
namespace tests { using namespace tools; }
// clang-format on
}  // namespace meshwright
