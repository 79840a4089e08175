# For bash; zsh needs `autoload -U bashcompinit && bashcompinit` before it.
_ode_transformer() {
    local words action
    if [[ $COMP_CWORD == 1 ]]; then
        words="@COMMANDS@"
    else
        if [[ $COMP_CWORD -gt 2 && ${COMP_WORDS[2]} == [a-z]* ]]; then action=${COMP_WORDS[2]}; fi
        words=$(ode-transformer "${COMP_WORDS[1]}" ${action:+"$action"} --help 2>/dev/null |
            grep -E "^  -|^    [a-z]" | grep -oE -- "^    [a-z][a-z0-9-]*| --[a-z][a-z0-9-]*" | sort -u)
        case "${COMP_WORDS[1]}${action:+ $action}" in
        help) words="@COMMANDS@" ;;
        run* | grid* | generate* | record* | compare* | "recipe "*)
            words+=" $(ode-transformer recipe list | cut -d' ' -f1)" ;;
        esac
    fi
    # shellcheck disable=SC2207  # zsh has no mapfile
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _ode_transformer ode-transformer
