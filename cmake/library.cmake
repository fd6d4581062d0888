# The library, shared (holdfast) and static (holdfast_static), made of the layers' objects, and its
# installation: headers, libraries, pkg-config file, CMake package.

get_property(HOLDFAST_LAYERS_PRESENT GLOBAL PROPERTY HOLDFAST_LAYERS_PRESENT)

# For programs of ours that look inside: all library layers as static libraries.
add_library(holdfast_all INTERFACE)
target_link_libraries(holdfast_all INTERFACE holdfast_headers)
set(objects "")
foreach(layer IN LISTS HOLDFAST_LAYERS_PRESENT)
  target_link_libraries(holdfast_all INTERFACE holdfast_${layer})
  if(TARGET holdfast_${layer}_objects)
    list(APPEND objects $<TARGET_OBJECTS:holdfast_${layer}_objects>)
  endif()
endforeach()
if(NOT objects)
  return()
endif()

# The build tree has its libraries where the installed one has them, so that holdfast-cc finds them from its own place in
# both.
set(HOLDFAST_LIBRARY_FOLDER ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR})
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(HOLDFAST_LIBRARY_FOLDER ${CMAKE_BINARY_DIR}/lib)
endif()
add_library(holdfast SHARED ${objects})
add_library(holdfast_static STATIC ${objects})
set_target_properties(holdfast PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(holdfast_static PROPERTIES OUTPUT_NAME holdfast EXPORT_NAME static)
set_target_properties(holdfast PROPERTIES EXPORT_NAME holdfast)
foreach(target holdfast holdfast_static)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${HOLDFAST_LIBRARY_FOLDER} ARCHIVE_OUTPUT_DIRECTORY ${HOLDFAST_LIBRARY_FOLDER})
  target_link_libraries(${target} PUBLIC Threads::Threads)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # The window is a constant of the build: a program that inlines is_nvm() must agree with it.
  target_compile_definitions(${target} INTERFACE
    $<INSTALL_INTERFACE:NVM_WINDOW_BASE=${NVM_WINDOW_BASE}>
    $<INSTALL_INTERFACE:NVM_WINDOW_BITS=${NVM_WINDOW_BITS}>)
endforeach()
# Only the C interface leaves the shared library, also where a template of the C++ library does not.
target_link_options(holdfast PRIVATE LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map)
# Functions of other libraries are looked up when ours is loaded, not one by one in the first call, which is the one
# that opens a pool.
target_link_options(holdfast PRIVATE LINKER:-z,relro,-z,now)
# What a process keeps of the library outlives a dlclose(): the reserved address window, handlers of exit and fork.
target_link_options(holdfast PRIVATE LINKER:-z,nodelete)
set_target_properties(holdfast PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
if(NOT NVM_SANITIZE)
  # A symbol that no library provides is found here and not by the first user.
  target_link_options(holdfast PRIVATE LINKER:--no-undefined)
endif()
add_library(holdfast::holdfast ALIAS holdfast)
add_library(holdfast::static ALIAS holdfast_static)

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
install(TARGETS holdfast holdfast_static EXPORT holdfastTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(EXISTS ${CMAKE_SOURCE_DIR}/include/nvm)
  install(DIRECTORY include/nvm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
endif()
install(FILES tools/gdb/holdfast.py DESTINATION ${CMAKE_INSTALL_DATADIR}/holdfast/gdb)
install(EXPORT holdfastTargets NAMESPACE holdfast:: DESTINATION ${package_dir})
configure_package_config_file(cmake/holdfastConfig.cmake.in
  ${CMAKE_BINARY_DIR}/holdfastConfig.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/holdfastConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/holdfastConfig.cmake
  ${CMAKE_BINARY_DIR}/holdfastConfigVersion.cmake DESTINATION ${package_dir})

# From <libdir>/pkgconfig back to the prefix.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig OUTPUT_VARIABLE HOLDFAST_PC_UP)
configure_file(cmake/holdfast.pc.in holdfast.pc.in @ONLY)
# Whether there is a holdfast-cc is known when everything is.
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/holdfast.pc INPUT ${CMAKE_BINARY_DIR}/holdfast.pc.in)
install(FILES ${CMAKE_BINARY_DIR}/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
