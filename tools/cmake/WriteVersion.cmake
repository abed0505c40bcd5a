# cmake -DSOURCE=FOLDER -DFROM=version.cpp.in -DTO=version.cpp -D... -P: what this build is, the commit as of now. The file is left
# alone where nothing has changed.
find_package(Git QUIET)
set(MESHWRIGHT_COMMIT "not known")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    string(REPLACE "-dirty" ", with changes" MESHWRIGHT_COMMIT "${described}")
  endif()
endif()
configure_file(${FROM} ${TO} @ONLY)
