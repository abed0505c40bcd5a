// Says which rooms see which. Each room is a namespace: it sees the names of the rooms below it,
// and where one of its own is called the same, it means its own. `tests/check_layers` holds
// includes to the same floors.
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
