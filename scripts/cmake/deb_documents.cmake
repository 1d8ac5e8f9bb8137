# Read by cpack once the files of the package are in place: Debian compresses man pages and the
# changelog, and its zsh looks for completions of packages in a folder of its own.

set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX})
file(COPY_FILE ${CPACK_ATTN_CHANGELOG} ${root}/share/doc/attnkit/changelog)
file(GLOB_RECURSE documents ${root}/share/man/*.[1-9])
execute_process(COMMAND gzip -9nf ${documents} ${root}/share/doc/attnkit/changelog
                COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${root}/share/zsh/site-functions ${root}/share/zsh/vendor-completions)
