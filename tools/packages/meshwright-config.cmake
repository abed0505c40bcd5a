# find_package(meshwright): targets meshwright::models (jobs, plans, graphs), meshwright::hwprofiles (machines) and
# meshwright::sim (predictions, searches), which links the others. Headers: <meshwright/sim/planner/search.h>.
include(CMakeFindDependencyMacro)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
find_dependency(nlohmann_json 3.11)
find_dependency(fmt)
find_dependency(Eigen3 3.4)
find_dependency(METIS)
find_dependency(Protobuf)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/targets.cmake)
